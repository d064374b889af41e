// Trains towers in tests, on any device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "carillon/data/dataset.h"
#include "src/step/tower.h"
#include "tests/support/float_arrays.h"
#include "tests/support/networks.h"

namespace carillon::testing {

/// Returns a network for MNIST's images that is small enough for tests.
Network small_network();

/// Records of noise in the format of MNIST's records.
class NoiseRecords {
 public:
  NoiseRecords(std::size_t count, std::size_t image_bytes, CacheMode cache = CacheMode::memory);
  const Dataset& dataset() const { return *dataset_; }

 private:
  std::unique_ptr<Dataset> dataset_;
};

struct Training {
  Network network = small_network();
  std::int64_t batch_size = 8;
  std::int64_t micro_batch = 0;  ///< see TowerSettings::micro_batch
  int steps = 150;
  float learning_rate = 0.05f;
  bool capture = true;
  Arithmetic arithmetic = Arithmetic::fp32;
  std::string rule = "sgd";
  double weight_decay = 0.0;
  std::vector<ParameterGroup> groups = {};
  LookaheadSettings lookahead = {};
  double clip_norm = 0.0;
  bool muon_normalizes = false;
  std::size_t bucket_bytes = std::size_t{4} << 20;
  const Dataset* resident = nullptr;  ///< records that the tower may keep on the GPU
  int results_every = 1;              ///< steps between calls of next_result
  int sync_at = -1;                   ///< number of the step that requests a synchronisation
  int explode_at = -1;                ///< number of the step with a learning rate that makes the loss non-finite
  int l2_every = 0;                   ///< period of steps that report the L2 loss; 0: never
  int observe_every = 0;              ///< period of steps with a before_update; 0: never
  int restored_at = -1;               ///< before this step, a new tower restores the state; one rank only
  bool averages = true;               ///< true: keep moving averages
};

struct Trained {
  std::vector<float> values, averages, buffers;
  std::vector<StepResult> results;
  std::vector<std::vector<float>> observed;  ///< mean gradients and step sums
  std::vector<std::string> captured_nodes;
  bool keeps_records = false;
};

/// Trains a tower. The steps use `records` in a scattered order. After each call of Tower::step, the images of this
/// step are overwritten. Rank r of n uses its own part of the n * batch_size samples of a step.
Trained train(const Training& training, const NoiseRecords& records, Device& device, Communicator& communicator);

/// Expects that the results of the two trainings have equal bits. This includes the results of each step.
void expect_equal(const Trained& a, const Trained& b);

}  // namespace carillon::testing
