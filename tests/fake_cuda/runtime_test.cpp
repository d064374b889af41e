#include "support/fake_cuda/fake_cuda.h"

#include <cstring>
#include <set>

#include "carillon/core/error.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"

namespace carillon::testing {
namespace {

/// An int in device memory or in page-locked memory.
class Int {
 public:
  enum class Where { device, pinned };
  explicit Int(Where where) : where_(where) {
    void* data = nullptr;
    check_cuda(where == Where::device ? cudaMalloc(&data, sizeof(int)) : cudaHostAlloc(&data, sizeof(int), 0));
    data_ = static_cast<int*>(data);
  }
  Int(const Int&) = delete;
  Int& operator=(const Int&) = delete;
  ~Int() { static_cast<void>(where_ == Where::device ? cudaFree(data_) : cudaFreeHost(data_)); }

  int* get() const { return data_; }
  void set(int value, const CudaStream& stream) const {
    check_cuda(fake_cuda::enqueue_kernel(
        stream.get(), [data = data_, value] { *data = value; }, "kernel"));
  }
  void add(int value, const CudaStream& stream) const {
    check_cuda(fake_cuda::enqueue_kernel(
        stream.get(), [data = data_, value] { *data += value; }, "kernel"));
  }
  void copy_to(const Int& other, const CudaStream& stream) const {
    check_cuda(cudaMemcpyAsync(other.get(), data_, sizeof(int), cudaMemcpyDefault, stream.get()));
  }

 private:
  Where where_;
  int* data_;
};

/// An event like CudaEvent, but its handle is public.
class RawEvent {
 public:
  RawEvent() {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    event_ = Handle<cudaEvent_t, cudaEventDestroy>(event);
  }
  cudaEvent_t get() const { return event_.get(); }
  void record(const CudaStream& stream) { check_cuda(cudaEventRecord(get(), stream.get())); }

 private:
  Handle<cudaEvent_t, cudaEventDestroy> event_;
};

class FakeCuda : public GpuTest {};

TEST_F(FakeCuda, NothingRunsBeforeSomebodyWaits) {
  const Int number(Int::Where::pinned);
  *number.get() = 1;
  CudaStream stream;
  number.set(2, stream);
  EXPECT_EQ(*number.get(), 1);
  stream.synchronize();
  EXPECT_EQ(*number.get(), 2);
}

TEST_F(FakeCuda, WithoutAWaitStreamsRunInAnyOrder) {
  for (const bool waits : {false, true}) {
    std::set<int> seen;
    for (std::uint64_t seed = 1; seed <= 32; ++seed) {
      fake_cuda::configure({.seed = seed});
      const Int number(Int::Where::device), result(Int::Where::pinned);
      CudaStream writer, reader;
      CudaEvent written;
      number.set(1, writer);
      writer.synchronize();
      number.set(2, writer);
      written.record(writer);
      if (waits) written.make_wait(reader);
      number.copy_to(result, reader);
      reader.synchronize();
      seen.insert(*result.get());
    }
    EXPECT_EQ(seen, waits ? std::set<int>{2} : (std::set<int>{1, 2}));
  }
}

TEST_F(FakeCuda, AWaitIsForWhatTheEventWasWhenItWasEnqueued) {
  const Int number(Int::Where::pinned);
  CudaStream first, second;
  CudaEvent event;
  number.set(1, first);
  event.record(first);
  event.make_wait(second);
  number.set(2, second);
  event.record(second);
  event.wait();
  EXPECT_EQ(*number.get(), 2);
}

TEST_F(FakeCuda, PageLockedMemoryIsReadWhenTheCopyRuns) {
  const Int staged(Int::Where::pinned), number(Int::Where::device);
  CudaStream stream;
  const auto result_of_copy = [&](int* from) {
    *from = 1;
    check_cuda(cudaMemcpyAsync(number.get(), from, sizeof(int), cudaMemcpyHostToDevice, stream.get()));
    *from = 2;
    int result = 0;
    check_cuda(cudaMemcpyAsync(&result, number.get(), sizeof(int), cudaMemcpyDeviceToHost, stream.get()));
    return result;
  };
  EXPECT_EQ(result_of_copy(staged.get()), 2);
  int pageable = 0;
  EXPECT_EQ(result_of_copy(&pageable), 1);
}

TEST_F(FakeCuda, APendingEventIsNotReadyAtFirst) {
  const Int number(Int::Where::device);
  CudaStream stream;
  CudaEvent event;
  EXPECT_TRUE(event.done());  // an event that was never recorded counts as done
  number.set(1, stream);
  event.record(stream);
  EXPECT_FALSE(event.done());
  int queries = 0;
  while (!event.done()) ASSERT_LT(++queries, 100);
}

TEST_F(FakeCuda, NewMemoryHoldsGarbage) {
  const Int number(Int::Where::device);
  CudaStream stream;
  int result = 0;
  check_cuda(cudaMemcpyAsync(&result, number.get(), sizeof(int), cudaMemcpyDeviceToHost, stream.get()));
  EXPECT_EQ(result, -1);
}

TEST_F(FakeCuda, MisuseOfMemoryEndsTheProcess) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(*Int(Int::Where::device).get() = 1, "touched by the host");
  EXPECT_DEATH(
      {
        const Int number(Int::Where::device);
        CudaStream stream;
        check_cuda(fake_cuda::enqueue_kernel(
            stream.get(), [data = number.get()] { data[1] = 1; }, "kernel"));
      },
      "wrote past the end");
  EXPECT_DEATH(
      {
        const Int number(Int::Where::device);
        CudaStream stream;
        check_cuda(fake_cuda::enqueue_kernel(
            stream.get(), [data = number.get()] { data[64] = 1; }, "kernel"));
        stream.synchronize();
      },
      "left its block");
  EXPECT_DEATH(
      {
        const Int number(Int::Where::device);
        static_cast<void>(cudaFree(number.get()));
      },
      "or twice");
  EXPECT_DEATH(
      {
        const Int number(Int::Where::device);
        CudaStream stream;
        const int values[2] = {};
        static_cast<void>(cudaMemcpyAsync(number.get(), values, sizeof(values), cudaMemcpyHostToDevice, stream.get()));
      },
      "8 bytes at 0 of a device block of 4");
}

TEST_F(FakeCuda, LeakedObjectsAreReported) {
  {
    const Int number(Int::Where::device);
    CudaStream stream;
    EXPECT_EQ(fake_cuda::left_over(), "1 device allocations, 1 streams");
  }
  EXPECT_EQ(fake_cuda::left_over(), "");
}

class FakeCapture : public GpuTest {
 protected:
  void TearDown() override {
    executable_ = {};
    GpuTest::TearDown();
  }
  void begin(const CudaStream& stream) {
    check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  }
  /// Ends the capture and keeps its graph in the fixture.
  cudaError_t end(const CudaStream& stream) {
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(stream.get(), &graph);
    if (status != cudaSuccess) {
      EXPECT_EQ(graph, nullptr);
      return status;
    }
    cudaGraphExec_t executable = nullptr;
    check_cuda(cudaGraphInstantiate(&executable, graph, 0));
    executable_ = Handle<cudaGraphExec_t, cudaGraphExecDestroy>(executable);
    check_cuda(cudaGraphDestroy(graph));
    return status;
  }
  void launch(const CudaStream& stream) { check_cuda(cudaGraphLaunch(executable_.get(), stream.get())); }

 private:
  Handle<cudaGraphExec_t, cudaGraphExecDestroy> executable_;
};

TEST_F(FakeCapture, RunsWhenLaunchedAndOnlyThen) {
  const Int number(Int::Where::pinned);
  *number.get() = 0;
  CudaStream stream;
  begin(stream);
  number.add(1, stream);
  ASSERT_EQ(end(stream), cudaSuccess);
  stream.synchronize();
  EXPECT_EQ(*number.get(), 0);
  for (int i = 0; i < 3; ++i) launch(stream);
  EXPECT_EQ(*number.get(), 0);
  stream.synchronize();
  EXPECT_EQ(*number.get(), 3);
}

TEST_F(FakeCapture, KeepsTheOrderThatEventsGive) {
  for (const bool joins_before_reading : {false, true}) {
    std::set<int> seen;
    for (std::uint64_t seed = 1; seed <= 32; ++seed) {
      fake_cuda::configure({.seed = seed});
      const Int number(Int::Where::device), result(Int::Where::pinned);
      CudaStream main, side;
      CudaEvent forked, joined;
      number.set(1, main);
      begin(main);
      forked.record(main);
      forked.make_wait(side);
      number.set(2, side);
      joined.record(side);
      if (joins_before_reading) joined.make_wait(main);
      number.copy_to(result, main);
      if (!joins_before_reading) joined.make_wait(main);
      ASSERT_EQ(end(main), cudaSuccess);
      launch(main);
      main.synchronize();
      seen.insert(*result.get());
    }
    EXPECT_EQ(seen, joins_before_reading ? std::set<int>{2} : (std::set<int>{1, 2}));
  }
}

TEST_F(FakeCapture, RefusesWorkThatWasNotJoined) {
  const Int number(Int::Where::device);
  CudaStream main, side;
  CudaEvent forked;
  begin(main);
  forked.record(main);
  forked.make_wait(side);
  number.set(2, side);
  EXPECT_EQ(end(main), cudaErrorStreamCaptureUnjoined);
  number.set(3, side);  // `side` is no longer in a capture
  side.synchronize();
}

TEST_F(FakeCapture, EndsByWhatCannotBeCaptured) {
  CudaStream stream;
  void* data = nullptr;
  RawEvent event;
  const std::vector<std::function<cudaError_t()>> calls{
      [&] { return cudaMalloc(&data, 4); },
      [&] { return cudaStreamSynchronize(stream.get()); },
      [&] { return cudaEventQuery(event.get()); },
      [&] { return cudaDeviceSynchronize(); },
  };
  for (const auto& call : calls) {
    begin(stream);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
  }
}

TEST_F(FakeCapture, DoesNotWaitForTheWorldOutside) {
  CudaStream stream, other;
  RawEvent event;
  event.record(other);
  begin(stream);
  EXPECT_EQ(cudaStreamWaitEvent(stream.get(), event.get(), 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeCapture, ItsEventsAreNotForTheHost) {
  CudaStream stream;
  RawEvent event;
  begin(stream);
  event.record(stream);
  ASSERT_EQ(end(stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaErrorCapturedEvent);
  event.record(stream);
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaSuccess);
}

}  // namespace
}  // namespace carillon::testing
