// FakeGpu: a device whose streams run one piece of work at a time. A seed determines the order. With different seeds,
// every order that the events allow can occur. The device's memory is host memory. An operation changes the memory only
// when the stream reaches the operation.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "carillon/core/error.h"
#include "src/device/cpu_device.h"

namespace carillon::testing {

class FakeGpu;

class FakeStream final : public Stream {
 public:
  explicit FakeStream(FakeGpu& gpu) : gpu_(gpu) {}
  /// Enqueues `work` on the stream. `work` can run when all earlier work of the stream is done and `ready` returns
  /// true.
  void give(
      std::function<void()> work, std::function<bool()> ready = [] { return true; }) const {
    queue_.push_back({std::move(work), std::move(ready)});
  }
  void synchronize() override;

 private:
  friend class FakeGpu;
  struct Piece {
    std::function<void()> work;
    std::function<bool()> ready;
  };
  FakeGpu& gpu_;
  mutable std::deque<Piece> queue_;
};

/// An event like CudaEvent: a wait refers to the last `record` that was called before the wait was enqueued.
class FakeEvent {
 public:
  void record(const FakeStream& stream) {
    reached_ = std::make_shared<bool>(false);
    stream.give([reached = reached_] { *reached = true; });
  }
  void make_wait(const FakeStream& stream) const {
    stream.give([] {}, [reached = reached_] { return *reached; });
  }
  bool done() const { return *reached_; }

 private:
  std::shared_ptr<bool> reached_ = std::make_shared<bool>(true);
};

class FakeGpu : public Device {
 public:
  explicit FakeGpu(unsigned seed) : random_(seed) {}

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return "GPU:fake"; }
  Buffer allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  Stream& stream() override { return compute; }
  void upload(const void* host, void* memory, std::size_t bytes) override {
    compute.give([=] { std::memcpy(memory, host, bytes); });
    compute.synchronize();
  }
  void copy(const void* from, void* to, std::size_t bytes) override {
    compute.give([=] { std::memcpy(to, from, bytes); });
    compute.synchronize();
  }
  void download(const void* memory, void* host, std::size_t bytes) override {
    compute.give([=] { std::memcpy(host, memory, bytes); });
    compute.synchronize();
  }

  /// Runs one piece of work of a stream that is not blocked. Returns false if every stream is blocked or empty.
  bool go_on() {
    std::vector<FakeStream*> ready;
    for (FakeStream* stream : {&compute, &side}) {
      if (!stream->queue_.empty() && stream->queue_.front().ready()) ready.push_back(stream);
    }
    if (ready.empty()) return false;
    std::deque<FakeStream::Piece>& queue = ready[random_() % ready.size()]->queue_;
    const FakeStream::Piece piece = std::move(queue.front());
    queue.pop_front();
    piece.work();
    return true;
  }
  /// Runs 0 to 3 pieces of work, because a device makes progress while the host does other work.
  void go_on_a_little() {
    for (unsigned pieces = random_() % 4; pieces > 0 && go_on();) --pieces;
  }

  FakeStream compute{*this}, side{*this};

 private:
  CpuDevice memory_{1};
  std::mt19937 random_;
};

inline void FakeStream::synchronize() {
  while (!queue_.empty()) check(gpu_.go_on(), "the fake GPU's streams wait for each other for ever");
}

}  // namespace carillon::testing
