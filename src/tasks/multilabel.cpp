#include "src/tasks/multilabel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "carillon/core/error.h"
#include "kernels/mean_loss/mean_loss.h"
#include "src/tasks/predictions.h"

namespace carillon {
namespace {

std::string describe(std::span<const std::byte> target) {
  std::string numbers;
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != std::byte{0}) numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", i);
  }
  return numbers.empty() ? "no labels" : "labels " + numbers;
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

double f1_of(const ClassCounts& counts) { return counts.f1().value_or(0.0); }

/// For one label: the logit of a sample, and whether the label applies to the sample.
struct Ranked {
  float logit;
  bool applies;
};

/// Sorts the samples by their logits. Then sets the results that depend on this order.
void rank(std::vector<Ranked>& samples, LabelResult& result) {
  std::ranges::sort(samples, std::ranges::greater{}, &Ranked::logit);
  const auto positives = static_cast<double>(result.counts.support);
  std::int64_t correct = 0;
  double sum = 0.0;
  for (std::size_t i = 0; i < samples.size();) {
    const float threshold = samples[i].logit;
    const std::int64_t before = correct;
    for (; i < samples.size() && samples[i].logit == threshold; ++i) correct += samples[i].applies ? 1 : 0;
    const auto predicted = static_cast<std::int64_t>(i);
    sum += static_cast<double>(correct - before) / positives * static_cast<double>(correct) /
           static_cast<double>(predicted);
    const double f1 = f1_of({.support = result.counts.support, .predicted = predicted, .correct = correct});
    if (f1 <= result.best_f1) continue;
    result.best_f1 = f1;
    result.best_threshold = label_probability(threshold);
  }
  result.average_precision = sum;
}

LabelResult result_of(const StoredSamples& samples, std::size_t label) {
  LabelResult result;
  std::vector<Ranked> ranked(samples.count());
  for (std::size_t i = 0; i < samples.count(); ++i) {
    const std::size_t at = i * samples.columns() + label;
    const bool applies = samples.targets()[at] != std::byte{0}, is_predicted = predicts_label(samples.outputs()[at]);
    ranked[i] = {samples.outputs()[at], applies};
    result.counts.support += applies ? 1 : 0;
    result.counts.predicted += is_predicted ? 1 : 0;
    result.counts.correct += applies && is_predicted ? 1 : 0;
  }
  if (result.counts.support > 0) rank(ranked, result);
  return result;
}

double cross_entropy_of(float logit, bool applies) {
  const double z = logit, t = applies ? 1.0 : 0.0;
  return std::max(z, 0.0) - z * t + std::log1p(std::exp(-std::abs(z)));
}

double mean_cross_entropy(const StoredSamples& samples) {
  double sum = 0.0;
  for (std::size_t i = 0; i < samples.outputs().size(); ++i) {
    sum += cross_entropy_of(samples.outputs()[i], samples.targets()[i] != std::byte{0});
  }
  return sum / static_cast<double>(samples.outputs().size());
}

struct Means {
  double average_precision = 0.0, macro_f1 = 0.0, micro_f1 = 0.0;
};

Means means_of(const std::vector<LabelResult>& labels) {
  Means means;
  double ranked = 0.0;
  ClassCounts all;
  for (const LabelResult& label : labels) {
    if (label.average_precision) {
      means.average_precision += *label.average_precision;
      ranked += 1.0;
    }
    means.macro_f1 += f1_of(label.counts) / static_cast<double>(labels.size());
    all.support += label.counts.support;
    all.predicted += label.counts.predicted;
    all.correct += label.counts.correct;
  }
  means.average_precision = ranked > 0.0 ? means.average_precision / ranked : not_a_number;
  means.micro_f1 = f1_of(all);
  return means;
}

}  // namespace

Task multilabel_task(std::int64_t labels) {
  check(labels > 0, "a multi-label task needs at least one label");
  constexpr const char* loss_name = "binary_cross_entropy";
  return {.target = {.type = DType::u8, .shape = {labels}},
          .outputs = labels,
          .loss =
              [](Graph& graph, const LossInputs& inputs) {
                return mean_loss(graph, loss_name, inputs.output, inputs.target,
                                 {.kind = MeanLossKind::sigmoid_cross_entropy, .mixing = inputs.mixing});
              },
          .loss_name = loss_name,
          .describe_target = describe,
          .make_metric = [labels] { return std::make_unique<MultilabelMetric>(static_cast<std::size_t>(labels)); },
          .score = "mean_average_precision"};
}

void MultilabelMetric::add(std::span<const float> outputs, std::span<const std::byte> targets) {
  results_.clear();
  samples_.add(outputs, targets);
}

void MultilabelMetric::merge(std::string_view contents) {
  results_.clear();
  samples_.merge(contents);
}

const std::vector<LabelResult>& MultilabelMetric::labels() const {
  if (!results_.empty()) return results_;
  for (std::size_t label = 0; label < samples_.columns(); ++label) results_.push_back(result_of(samples_, label));
  return results_;
}

double MultilabelMetric::cross_entropy(std::size_t i) const {
  double sum = 0.0;
  for (std::size_t at = i * samples_.columns(); at < (i + 1) * samples_.columns(); ++at) {
    sum += cross_entropy_of(samples_.outputs()[at], samples_.targets()[at] != std::byte{0});
  }
  return sum / static_cast<double>(samples_.columns());
}

std::vector<Score> MultilabelMetric::scores() const {
  const Means means = means_of(labels());
  return {
      {.name = "mean_average_precision", .value = means.average_precision},
      {.name = "macro_f1", .value = means.macro_f1},
      {.name = "micro_f1", .value = means.micro_f1},
      {.name = "binary_cross_entropy", .value = mean_cross_entropy(samples_), .log_name = "loss", .tag = "eval_loss"}};
}

ScoreTable MultilabelMetric::table() const {
  ScoreTable table{.columns = {"positives", "predicted", "correct", "precision", "recall", "f1", "average_precision",
                               "best_threshold", "best_f1"},
                   .rows = {}};
  for (const LabelResult& label : labels()) {
    const ClassCounts& counts = label.counts;
    const bool has_positives = counts.support > 0;
    table.rows.push_back(
        {static_cast<double>(counts.support), static_cast<double>(counts.predicted),
         static_cast<double>(counts.correct), counts.precision().value_or(not_a_number),
         counts.recall().value_or(not_a_number), f1_of(counts), label.average_precision.value_or(not_a_number),
         has_positives ? label.best_threshold : not_a_number, has_positives ? label.best_f1 : not_a_number});
  }
  return table;
}

std::string MultilabelMetric::text() const {
  return fmt::format("mean average precision = {:.4f} ({} labels, {} records)", means_of(labels()).average_precision,
                     samples_.columns(), samples_.count());
}

std::vector<std::string> MultilabelMetric::other_texts() const {
  const Means means = means_of(labels());
  return {fmt::format("binary cross-entropy = {:.4f}", mean_cross_entropy(samples_)),
          fmt::format("F1 at probability 0.5 = {:.4f} (mean over labels), {:.4f} (all labels together)", means.macro_f1,
                      means.micro_f1)};
}

}  // namespace carillon
