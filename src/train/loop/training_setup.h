// Makes the settings of the tower, the network and the evaluations from the options of a training. Also checks that
// their batches fit in the memory of this host.
#pragma once

#include <cstdint>
#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "src/step/tower.h"
#include "src/train/evaluation/evaluator.h"

namespace carillon {

/// Number of batches that a rank has in memory at a time. Each of them has BuildSettings::batch_size samples.
struct BatchInMemory {
  std::string option;        ///< the option that sets the size, with its value: "--batch-size 128"
  std::int64_t at_once = 0;  ///< number of micro-batches in memory, one per thread; 0: the rank has one batch
};

/// Bytes of the activations and, in training, their gradients on a CPU. `at_once`: as BatchInMemory::at_once.
std::size_t activation_bytes(const BuiltNetwork& built, const Device& device, std::int64_t at_once = 0);

/// `built`: the network with a loss for a training, without a loss for an evaluation. `ranks`: number of ranks on this
/// host. Errors: usage (on a CPU, the activations of these ranks need more than the whole memory of the host; the
/// message names the option).
void check_batch_fits(const BuiltNetwork& built, const Device& device, int ranks, const BatchInMemory& batch);

/// Facts about the training set that a network may depend on (NetworkSettings).
struct FoundRecords {
  float density = 1.0f;  ///< Dataset::density
  std::uint64_t record_count = 0;
};

/// Settings that do not depend on the dataset. Errors: as OptimizerOptions::settings.
TowerSettings tower_settings(const TrainOptions& options);

/// Settings of the evaluations of a training on `device`. `part`: this rank's part of the records. If `part.dataset` is
/// null, assumes that the images have the size of the training images.
EvaluatorSettings evaluator_settings(const TrainOptions& options, DeviceKind device, const EvaluatedPart& part,
                                     int decode_threads);

/// The network to train on records of options.data.record_form. `found`: facts about the records, known once the
/// records are open. Errors: as the model's MakeNetwork.
Network network_to_train(const TrainOptions& options, const FoundRecords& found = {});
/// As network_to_train, for images of the shape `image`, for example evaluation images. Errors: as network_to_train.
Network network_for_images(const TrainOptions& options, const ImageShape& image, const FoundRecords& found = {});

}  // namespace carillon
