#include "tests/gpu/plan_stopwatch.h"

#include <algorithm>
#include <vector>

#include "src/device/cuda_device.h"

namespace carillon::testing {
namespace {

class Stopwatch {
 public:
  explicit Stopwatch(const CudaStream& stream) : stream_(stream), begin_(make_event()), end_(make_event()) {}
  double time(const std::function<void()>& work) const {
    check_cuda(cudaEventRecord(begin_.get(), stream_.get()));
    work();
    check_cuda(cudaEventRecord(end_.get(), stream_.get()));
    check_cuda(cudaEventSynchronize(end_.get()));
    float milliseconds = 0.0f;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    constexpr double least = 0.1;  // in microseconds; a time below the resolution of CUDA's events, which is 0.5
    return std::max(1e3 * static_cast<double>(milliseconds), least);
  }

 private:
  using Event = Handle<cudaEvent_t, cudaEventDestroy>;
  static Event make_event() {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDefault));
    return Event(event);
  }

  const CudaStream& stream_;
  Event begin_, end_;
};

}  // namespace

double time_of(CudaDevice& device, const std::function<void()>& enqueue, double best) {
  constexpr int warm_launches = 2, launches = 9, most_repeats = 20;
  constexpr double launch_time = 800.0, slow = 3.0, latency = 60.0;
  const CudaStream& stream = device.compute_stream();
  const Stopwatch stopwatch(stream);
  enqueue();  // the first call loads the kernel
  const double once = stopwatch.time(enqueue);
  if (once > slow * best + latency) return once;
  const int repeats = std::clamp(static_cast<int>(launch_time / once), 1, most_repeats);
  const auto repeat = [&] {
    for (int i = 0; i < repeats; ++i) enqueue();
  };
  const ExecutableGraph graph = capture(stream, repeat, "a convolution");
  const auto launch = [&] { check_cuda(cudaGraphLaunch(graph.get(), stream.get())); };
  for (int i = 0; i < warm_launches; ++i) launch();
  std::vector<double> times;
  for (int i = 0; i < launches; ++i) times.push_back(stopwatch.time(launch) / repeats);
  std::ranges::nth_element(times, times.begin() + launches / 2);
  return times[launches / 2];
}

}  // namespace carillon::testing
