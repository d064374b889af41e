#include "src/train/preflight/step_time.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/philox.h"
#include "src/comm/allreduce/communicators.h"
#include "src/core/resources.h"
#include "src/step/tower.h"
#include "src/train/loop/run_times.h"
#include "src/train/loop/training_setup.h"

namespace carillon {
namespace {

/// Samples of noise, all with the target 0.
class NoiseBatch {
 public:
  NoiseBatch(const ImageShape& shape, const TargetSpec& target, std::int64_t batch_size)
      : pixels_(static_cast<std::size_t>(batch_size * shape.height * shape.width * shape.channels)),
        targets_(static_cast<std::size_t>(batch_size) * target.bytes()) {
    for (std::size_t i = 0; i < pixels_.size(); ++i) {
      const Philox4x32 random = philox4x32(1, philox_counter(RandomPurpose::synthetic, i / 4, 0));
      pixels_[i] = static_cast<std::uint8_t>(random.word[i % 4] >> 24);
    }
    const std::size_t bytes = pixels_.size() / static_cast<std::size_t>(batch_size);
    for (std::size_t i = 0; i < pixels_.size(); i += bytes) images_.push_back(pixels_.data() + i);
    records_.resize(images_.size());
    std::iota(records_.begin(), records_.end(), 0u);
  }
  Batch batch() const { return {.images = images_, .targets = targets_, .records = records_}; }

 private:
  std::vector<std::uint8_t> pixels_;
  std::vector<std::byte> targets_;
  std::vector<const std::uint8_t*> images_;
  std::vector<std::uint32_t> records_;
};

/// A network that trains on one batch of noise.
class Training {
 public:
  Training(const Network& network, const StepTimeSettings& settings, std::int64_t batch_size, Device& device)
      : clock_(settings.clock),
        noise_(network.image, settings.task.target, batch_size),
        communicator_(make_self_communicator(device)),
        tower_(network, settings.task,
               {.batch_size = batch_size, .arithmetic = settings.arithmetic, .optimizer = settings.optimizer}, device,
               *communicator_) {
    tower_.initialize(1);
    timed_step();  // allocates memory and prepares the ops
  }
  /// Takes a step and returns its seconds.
  double timed_step() {
    const Stopwatch watch(clock_);
    tower_.step({.step = step_++, .batch = noise_.batch()});
    tower_.next_result(Results::all);
    return watch.seconds();
  }

 private:
  clockid_t clock_;
  NoiseBatch noise_;
  std::unique_ptr<Communicator> communicator_;
  Tower tower_;
  std::int64_t step_ = 0;
};

/// True if the activations fit in half of the free memory, with one batch in each of the processes. On a GPU, always
/// true.
bool fits(const Network& network, const StepTimeSettings& settings, std::int64_t batch_size, const Device& device) {
  if (device.kind() != DeviceKind::cpu) return true;
  const BuiltNetwork built = build_network(network, settings.task, {batch_size, settings.arithmetic});
  const auto processes = static_cast<std::uint64_t>(settings.processes);
  return activation_bytes(built, device) <= available_memory_bytes() / 2 / processes;
}

/// Returns settings.batch_size, halved until it is at most `limit` and the batch fits the memory.
std::int64_t batch_within(double limit, const Network& network, const StepTimeSettings& settings,
                          const Device& device) {
  std::int64_t batch = settings.batch_size;
  while (batch > 1 && (static_cast<double>(batch) > limit || !fits(network, settings, batch, device))) batch /= 2;
  return batch;
}

/// Returns the median time of a step. Runs at least 2 steps. Then runs further steps until `seconds` have passed, at
/// most 30.
double median_step(Training& training, double seconds) {
  std::vector<double> times;
  double spent = 0.0;
  while (times.size() < 2 || (times.size() < 30 && spent < seconds)) {
    times.push_back(training.timed_step());
    spent += times.back();
  }
  return median(std::move(times));
}

}  // namespace

StepTime measure_step(MakeNetwork make, const StepTimeSettings& settings, Device& device) {
  constexpr double steps = 4.0;  // number of steps with the measured batch, including the first step
  const Stopwatch watch(settings.clock);
  NetworkSettings network_settings = settings.network;
  network_settings.record_count = static_cast<std::uint64_t>(settings.batch_size);
  const Network network = make(network_settings);
  const auto threads = static_cast<double>(std::max<std::size_t>(1, device.workers().size()));
  const double fewest = threads * static_cast<double>(device.min_samples(settings.arithmetic));
  const std::int64_t least = batch_within(fewest, network, settings, device);
  if (!fits(network, settings, least, device)) {
    fail(ExitCode::usage, "the network {} needs more than half of the free memory at {}x{} pixels", network.name,
         network.image.height, network.image.width);
  }
  StepTime time{.batch_size = least};
  {
    Training training(network, settings, least, device);
    time.seconds = training.timed_step();
    const double left = settings.seconds - watch.seconds();
    const std::int64_t batch = batch_within(left / (steps * time.seconds_per_image()), network, settings, device);
    if (batch <= least) return {.batch_size = least, .seconds = median_step(training, left)};
    time.batch_size = batch;
  }
  Training training(network, settings, time.batch_size, device);
  time.seconds = median_step(training, settings.seconds - watch.seconds());
  return time;
}

}  // namespace carillon
