#include "carillon/run/train_options.h"

namespace carillon {

ModelSettings TrainOptions::model_settings() const {
  return {.pixel_scale = static_cast<float>(pixel_scale),
          .regularization = static_cast<float>(regularization),
          .distort = distort,
          .seed = seed};
}

ExponentialDecay TrainOptions::schedule() const {
  return {.initial = learning_rate,
          .factor = learning_rate_decay,
          .decay_steps = static_cast<double>(decay_steps),
          .staircase = staircase};
}

}  // namespace carillon
