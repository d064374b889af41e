#include "carillon/run/train_options.h"

#include "carillon/core/error.h"

namespace carillon {

OptimizerSettings TrainOptions::optimizer() const {
  check(decay_steps > 0, "the steps of a decay are not settled");
  return {.rule = "sgd",
          .learning_rate = exponential_decay({.initial = learning_rate,
                                              .factor = learning_rate_decay,
                                              .decay_steps = static_cast<double>(decay_steps),
                                              .staircase = staircase}),
          .moving_average_decay = moving_average_decay};
}

Network TrainOptions::network(float density) const {
  return make_network({.image = record_form.schema.image_shape,
                       .density = density,
                       .class_count = record_form.schema.class_count,
                       .pixel_scale = static_cast<float>(pixel_scale),
                       .regularization = static_cast<float>(regularization),
                       .distort = distort,
                       .seed = seed});
}

}  // namespace carillon
