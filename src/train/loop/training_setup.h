// The tower, the network and the evaluations of a training, as its options describe them.
#pragma once

#include "carillon/cli/options/train_options.h"
#include "src/step/tower.h"
#include "src/train/evaluation/evaluator.h"

namespace carillon {

/// Facts about the training set that a network may depend on (NetworkSettings).
struct FoundRecords {
  float density = 1.0f;  ///< Dataset::density
  std::uint64_t record_count = 0;
};

/// Settings that do not depend on the dataset. Errors: those of OptimizerOptions::settings.
TowerSettings tower_settings(const TrainOptions& options);

/// Settings of the evaluations of a training on `device`. `part`: this rank's; without a dataset, the images count as
/// large as training images.
EvaluatorSettings evaluator_settings(const TrainOptions& options, DeviceKind device, const EvaluatedPart& part,
                                     int decode_threads);

/// The network to train on records of options.data.record_form. `found`: facts of the records, once they are open.
/// Errors: those of the model's MakeNetwork.
Network network_to_train(const TrainOptions& options, const FoundRecords& found = {});
/// The same network for images of the shape `image`, for example those of evaluations. Errors: as network_to_train.
Network network_for_images(const TrainOptions& options, const ImageShape& image, const FoundRecords& found = {});

}  // namespace carillon
