#include "src/train/preflight/preflight.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "carillon/core/error.h"
#include "src/core/printable.h"
#include "src/core/size_text.h"

namespace carillon {
namespace {

class Averager {
 public:
  Averager(const PreflightSubject& subject, Device& device, Communicator& communicator)
      : device_(device),
        communicator_(communicator),
        bucket_(std::max<std::size_t>(1, subject.bucket_bytes / sizeof(float))),
        divisor_(static_cast<float>(subject.divisor)),
        memory_(communicator.allocate(std::max<std::size_t>(1, subject.gradients) * sizeof(float))) {
    communicator.prepare(std::min(bucket_, std::max<std::size_t>(1, subject.gradients)));
    device_.check_while_waiting([&communicator] { communicator.check_peers(); });
  }
  ~Averager() { device_.check_while_waiting({}); }
  Averager(const Averager&) = delete;
  Averager& operator=(const Averager&) = delete;

  /// Averages `count` numbers in buckets as a step does. Returns the seconds on this rank.
  double average(std::size_t count) {
    host_.resize(count);
    for (std::size_t i = 0; i < count; ++i) host_[i] = value_at(i);
    communicator_.acquire(device_.stream());
    device_.upload(host_.data(), memory_.data(), count * sizeof(float));
    const auto start = std::chrono::steady_clock::now();
    const std::span<float> values(static_cast<float*>(memory_.data()), count);
    for (std::size_t begin = 0; begin < count; begin += bucket_) {
      communicator_.start_allreduce_mean(values.subspan(begin, std::min(bucket_, count - begin)), device_.stream());
    }
    communicator_.finish(device_.stream());
    device_.stream().synchronize();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return spent.count();
  }

  /// The means are sums times 1 / divisor, rounded once or twice, and to bfloat16 if the communicator rounds.
  bool is_right() {
    device_.download(memory_.data(), host_.data(), host_.size() * sizeof(float));
    const auto ranks = static_cast<float>(communicator_.size());
    const float mean = (communicator_.rounds() ? 1.0f : ranks * (ranks + 1.0f) / 2.0f) / divisor_;
    const float most = mean * (communicator_.rounds() ? 0x1p-8f : 0x1p-20f);
    const float factor = communicator_.result_scale();
    return std::ranges::all_of(host_, [=](float value) { return std::abs(value * factor - mean) <= most; });
  }

 private:
  /// The values differ between ranks, and their sums are whole numbers. With a communicator that rounds, one rank has a
  /// 1 and the others have 0, so that every partial sum is exact and a lost value is found at any number of ranks.
  float value_at(std::size_t i) const {
    if (!communicator_.rounds()) return static_cast<float>(communicator_.rank() + 1);
    return i % static_cast<std::size_t>(communicator_.size()) == static_cast<std::size_t>(communicator_.rank()) ? 1.0f
                                                                                                                : 0.0f;
  }

  Device& device_;
  Communicator& communicator_;
  std::size_t bucket_;
  float divisor_;
  Buffer memory_;
  std::vector<float> host_;
};

/// The median, over some rounds, of the slowest rank's seconds.
double measure(Averager& averager, std::size_t count, const Mpi& mpi) {
  constexpr int warm_up = 3, rounds = 21;
  std::vector<double> seconds;
  for (int round = -warm_up; round < rounds; ++round) {
    mpi.barrier();
    const double own = averager.average(count);
    double slowest = 0.0;
    for (const std::string& text : mpi.all_gather(fmt::format("{}", own))) {
      slowest = std::max(slowest, std::strtod(text.c_str(), nullptr));
    }
    if (round >= 0) seconds.push_back(slowest);
  }
  mpi.run_on_all([&] {
    if (!averager.is_right()) fail(ExitCode::failed, "preflight: averaging gives wrong means");
  });
  std::ranges::nth_element(seconds, seconds.begin() + rounds / 2);
  return seconds[rounds / 2];
}

}  // namespace

std::string try_averaging(const PreflightSubject& subject, const Mpi& mpi, Device& device, Communicator& communicator) {
  if (mpi.size() == 1) return "averaging: one rank has nothing to average\n";
  Averager averager(subject, device, communicator);
  const double latency = measure(averager, 1, mpi), whole = measure(averager, subject.gradients, mpi);
  const double bytes = static_cast<double>(subject.gradients) * sizeof(float);
  std::string text = fmt::format(
      "averaging by {}: 4 bytes in {:.1f} us; the {} of {}'s gradients in {:.2f} ms, {}/s; the means are right\n",
      communicator.name(), latency * 1e6, size_text(bytes), subject.network, whole * 1e3, size_text(bytes / whole));
  if (const char* const interfaces = std::getenv("OMPI_MCA_btl_tcp_if_include")) {
    text += fmt::format("Open MPI sends through {}\n", printable(interfaces));
  }
  return text;
}

}  // namespace carillon
