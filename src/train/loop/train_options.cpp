#include "carillon/train/train_options.h"

#include "src/step/tower.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/tasks/classification_metric.h"

namespace carillon {

namespace {

/// From the end of the warm-up, step 0 here.
Schedule main_schedule(const TrainOptions& o) {
  const ScheduleOptions& s = o.schedule_options;
  const std::int64_t end = s.steps > 0 ? s.steps : o.max_steps,
                     steps = std::max<std::int64_t>(1, end - s.warm_up_steps);
  switch (s.kind) {
    case ScheduleKind::exponential:
      break;
    case ScheduleKind::constant:
      return constant_rate(o.learning_rate);
    case ScheduleKind::polynomial:
      return polynomial_decay({.initial = o.learning_rate, .final = s.final_rate, .power = s.power, .steps = steps});
    case ScheduleKind::cosine:
      return cosine_decay({.initial = o.learning_rate, .final = s.final_rate, .steps = steps});
    case ScheduleKind::step: {
      StepDecay decay{.initial = o.learning_rate, .factor = s.milestone_factor, .milestones = s.milestones};
      for (std::int64_t& milestone : decay.milestones) milestone -= s.warm_up_steps;
      return step_decay(std::move(decay));
    }
    case ScheduleKind::triangular: {
      std::vector<SchedulePoint> points = s.points;
      for (SchedulePoint& point : points) point.step -= s.warm_up_steps;
      return piecewise_linear(std::move(points));
    }
  }
  check(o.decay_steps > 0, "the steps of a decay are not settled");
  return exponential_decay({.initial = o.learning_rate,
                            .factor = o.learning_rate_decay,
                            .decay_steps = static_cast<double>(o.decay_steps),
                            .staircase = o.staircase});
}

}  // namespace

Schedule TrainOptions::schedule() const {
  return warm_up({.from = schedule_options.warm_up_from, .steps = schedule_options.warm_up_steps},
                 main_schedule(*this));
}

OptimizerSettings TrainOptions::optimizer() const {
  OptimizerSettings settings = optimizer_settings;
  settings.learning_rate = schedule();
  std::vector<ParameterGroup> groups;
  for (const std::string& pattern : freeze) {
    groups.push_back({.pattern = pattern, .frozen_after = 0, .option = "--freeze"});
  }
  settings.groups.insert(settings.groups.begin(), groups.begin(), groups.end());
  settings.moving_average_decay = moving_average_decay;
  return settings;
}

TowerSettings TrainOptions::tower() const {
  return {.batch_size = batch_size,
          .micro_batch = micro_batch,
          .arithmetic = precision,
          .optimizer = optimizer(),
          .bucket_bytes = static_cast<std::size_t>(bucket_kib) * 1024,
          .wire = wire,
          .capture = cuda_graph};
}

Network TrainOptions::network(const FoundRecords& found) const {
  Network made = make_network({.image = record_form.schema.image_shape,
                               .density = found.density,
                               .class_count = record_form.schema.class_count,
                               .pixel_scale = static_cast<float>(pixel_scale),
                               .regularization = static_cast<float>(regularization),
                               .distort = distort && !record_form.decoder_distorts,
                               .normalization = normalization,
                               .record_count = found.record_count,
                               .seed = seed});
  made.label_smoothing = static_cast<float>(label_smoothing);
  made.warp = {.rotation = rotate, .zoom = zoom, .shift = shift, .seed = seed};
  made.mixing = {.mixup = mixup, .cutmix = cutmix, .seed = seed};
  made.sync_batch_norm = sync_batch_norm;
  return made;
}

Task TrainOptions::task() const {
  return {.target = {},
          .loss = {},
          .loss_name = "cross_entropy",
          .make_metric = [] { return std::make_unique<AccuracyMetric>(); },
          .score = "accuracy"};
}

}  // namespace carillon
