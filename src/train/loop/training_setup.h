// Makes the settings of the tower, the network and the evaluations from the options of a training. Also checks that
// their batches fit in the memory of this host.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "carillon/cli/options/train_options.h"
#include "carillon/device/device.h"
#include "carillon/models/network.h"
#include "src/step/tower.h"
#include "src/train/evaluation/evaluator.h"

namespace carillon {

/// Describes how many batches a rank has in memory at a time. Each of these batches has BuildSettings::batch_size
/// samples.
struct BatchInMemory {
  std::string option;        ///< the option that sets the size, with its value: "--batch-size 128"
  std::int64_t at_once = 0;  ///< number of micro-batches in memory, one per thread; 0: the rank has one batch
};

/// Returns the number of bytes of the activations on a CPU. In training, includes their gradients. `at_once`: as
/// BatchInMemory::at_once.
std::size_t activation_bytes(const BuiltNetwork& built, const Device& device, std::int64_t at_once = 0);

/// Checks that the batches of all ranks of this host fit in the memory of the host. `built`: the network with a loss
/// for a training, without a loss for an evaluation. `ranks`: number of ranks on this host. Errors: usage (the device
/// is a CPU, and the activations of these ranks need more than the whole memory of the host; the message names the
/// option).
void check_batch_fits(const BuiltNetwork& built, const Device& device, int ranks, const BatchInMemory& batch);

/// Facts about the training set on which a network may depend (NetworkSettings).
struct FoundRecords {
  float density = 1.0f;  ///< Dataset::density
  std::uint64_t record_count = 0;
};

/// Returns the settings that do not depend on the dataset. Errors: see OptimizerOptions::settings.
TowerSettings tower_settings(const TrainOptions& options);

/// The largest number of elements of a tensor on a GPU. Reason: cuDNN and some kernels index the elements with signed
/// 32-bit integers.
inline constexpr std::int64_t most_gpu_elements = std::numeric_limits<std::int32_t>::max();

/// Returns the number of elements per sample of the largest tensor, in an evaluation of `network` on a GPU.
std::int64_t largest_evaluated_tensor(const Network& network, Arithmetic arithmetic);

/// Checks that a GPU can index the tensors of an evaluation of one image. `subject`: for the message. Errors: usage (a
/// tensor is too large).
void check_gpu_can_index(const Network& network, Arithmetic arithmetic, const std::string& subject);

/// Returns the settings of the evaluations of a training on `device`. `network`: the network for the evaluated images.
/// On a GPU, the batch is as large as is useful. A batch of more than one sample is only so large that no tensor has
/// more than most_gpu_elements elements. `part`: this rank's part of the records.
EvaluatorSettings evaluator_settings(const TrainOptions& options, const Network& network, DeviceKind device,
                                     const EvaluatedPart& part, int decode_threads);

/// Returns the network to train on records of options.data.record_form. `found`: facts about the records, which are
/// known after the records have been opened. Errors: the errors of the model's MakeNetwork.
Network network_to_train(const TrainOptions& options, const FoundRecords& found = {});
/// Does the same as network_to_train, but for images of the shape `image`, for example evaluation images. Errors: see
/// network_to_train.
Network network_for_images(const TrainOptions& options, const ImageShape& image, const FoundRecords& found = {});

}  // namespace carillon
