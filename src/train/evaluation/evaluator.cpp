#include "src/train/evaluation/evaluator.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "carillon/core/error.h"
#include "src/data/loading/batch_loader.h"
#include "src/step/tensor_io.h"
#include "src/step/update/update_strategy.h"

namespace carillon {
namespace {

/// Checks that all values of the arrays are finite. Errors: data (a value is not finite). `kind`: the kind of the
/// arrays, for the message.
void check_finite(const std::vector<NamedArray>& arrays, std::string_view kind, const std::filesystem::path& path) {
  if (const NamedArray* array = find_not_finite(arrays)) {
    fail(ExitCode::data, "{}: its {} '{}' is not finite", path.string(), kind, array->name);
  }
}

/// Checks that all outputs of a batch are finite. Errors: failed (an output is not finite). `records`: the record
/// numbers of the samples in `dataset`.
void check_outputs(std::span<const float> outputs, std::span<const std::uint32_t> records, const Dataset& dataset) {
  const auto not_finite = std::ranges::find_if_not(outputs, [](float value) { return std::isfinite(value); });
  if (not_finite == outputs.end()) return;
  const std::size_t elements = outputs.size() / records.size();
  const std::size_t sample = static_cast<std::size_t>(not_finite - outputs.begin()) / elements;
  fail(ExitCode::failed, "evaluation: {}: the network's output is not finite", dataset.name_of(records[sample]));
}

ForwardSettings forward_settings(const Network& network, const EvaluatorSettings& settings) {
  return {.image = network.image,
          .averages_views = settings.test_time_augmentation,
          .capture = settings.capture,
          .dataset = settings.repeated.dataset,
          .kept = settings.repeated.records,
          .max_kept_bytes = std::size_t{256} << 20};
}

}  // namespace

EvaluatedPart part_of(const Dataset& dataset, const Mpi& mpi) {
  const auto ranks = static_cast<std::uint64_t>(mpi.size()), rank = static_cast<std::uint64_t>(mpi.rank());
  return {&dataset, {dataset.size() * rank / ranks, dataset.size() * (rank + 1) / ranks}};
}

Evaluator::Evaluator(const Network& network, const EvaluatorSettings& settings, Device& device)
    : device_(device),
      settings_(settings),
      network_(build_network(network, {settings.batch_size, settings.arithmetic, Purpose::evaluation, device.kind()})),
      parameters_(network_.graph.parameters(), device,
                  {.gradients = {}, .compute_copies = make_compute_copies(network_.graph, device)}),
      buffers_(network_.graph.buffers(), device),
      pass_(make_forward_pass({network_, device, parameters_, buffers_}, forward_settings(network, settings))) {}

void Evaluator::load(const LoadedCheckpoint& checkpoint, TrainedValues values) {
  const bool averages = values == TrainedValues::moving_averages;
  const std::vector<NamedArray>& arrays = averages ? checkpoint.state.moving_averages : checkpoint.state.variables;
  check_finite(arrays, averages ? "moving average" : "variable", checkpoint.path);
  check_finite(checkpoint.state.buffers, "running statistic", checkpoint.path);
  upload(arrays, variables_of(parameters_), device_, checkpoint.path);
  upload(checkpoint.state.buffers, buffers_of(buffers_), device_, checkpoint.path);
}

void Evaluator::broadcast_from_first(const Mpi& mpi) {
  for (const std::span<float> values : {parameters_.values(), buffers_.values()}) {
    std::vector<float> host(values.size());
    device_.download(values.data(), host.data(), values.size_bytes());
    mpi.broadcast(std::as_writable_bytes(std::span(host)), 0);
    device_.upload(host.data(), values.data(), values.size_bytes());
  }
}

void Evaluator::load_averages(std::span<float> averages, const BufferStore& buffers) {
  copy_floats(device_, averages, parameters_.values());
  copy_floats(device_, buffers.values(), buffers_.values());
}

void Evaluator::begin() {
  refresh_compute_copies(parameters_, device_);
  while (pass_->next_outputs(Results::all)) {  // outputs may remain from an evaluation that failed
  }
}

std::vector<float> Evaluator::outputs(const Batch& batch) {
  begin();
  pass_->enqueue(batch);
  const std::span<const float> outputs = pass_->next_outputs(Results::all).value();
  return {outputs.begin(), outputs.end()};
}

Evaluator::PendingBatch Evaluator::pending(const Batch& batch, const Dataset& dataset) const {
  const std::size_t samples = batch.valid_count();
  const auto records = batch.records.first(samples);
  PendingBatch pending{.records = {records.begin(), records.end()}, .targets = {}};
  if (!pass_->keeps_records()) {
    const auto targets = batch.targets_of(0, samples);
    pending.targets.assign(targets.begin(), targets.end());
  } else {
    for (const std::uint32_t record : records)
      std::ranges::copy(dataset.target(record), back_inserter(pending.targets));
  }
  return pending;
}

void Evaluator::add_part(Metric& metric, const Dataset& dataset, const Mpi& mpi,
                         const std::function<void()>& batch_done, const std::optional<RandomSample>& sample) {
  const bool keeps_records = pass_->keeps_records();
  check(!keeps_records || settings_.repeated.dataset == &dataset, "the evaluator keeps the records of another dataset");
  check(!keeps_records || !sample, "the evaluator keeps only the records of this rank");
  begin();
  const RecordRange part = part_of(dataset, mpi).records;
  const auto batch_size = static_cast<std::size_t>(settings_.batch_size);
  BatchLoader loader(dataset, SampleOrder(dataset.size(), sample ? sample->seed : 0, sample.has_value()),
                     {.start = part.begin, .global_batch = batch_size, .batch_size = batch_size, .end = part.end},
                     {.thread_count = settings_.decode_threads, .bytes = settings_.prefetch_bytes});
  std::deque<PendingBatch> batches;  // the enqueued batches for which no outputs have been returned yet
  const auto add_outputs = [&](Results wanted) {
    while (const auto outputs = pass_->next_outputs(wanted)) {
      const PendingBatch& batch = batches.front();
      const auto valid = outputs->first(outputs->size() / batch_size * batch.records.size());
      check_outputs(valid, batch.records, dataset);
      metric.add(valid, batch.targets);
      batches.pop_front();
    }
  };
  while (loader.has_next()) {
    const Batch& batch = keeps_records ? loader.next_by_records() : loader.next();
    pass_->enqueue(batch);
    batches.push_back(pending(batch, dataset));
    add_outputs(Results::due);
    batch_done();
    if (sample && sample->is_over()) break;
  }
  add_outputs(Results::all);
}

std::unique_ptr<Metric> Evaluator::evaluate(const MakeMetric& make_metric, const Dataset& dataset, const Mpi& mpi,
                                            const std::function<void()>& batch_done,
                                            const std::optional<RandomSample>& sample) {
  std::string part;
  mpi.run_on_all([&] {
    const std::unique_ptr<Metric> metric = make_metric();
    add_part(*metric, dataset, mpi, batch_done, sample);
    part = metric->contents();
  });
  std::unique_ptr<Metric> all = make_metric();
  for (const std::string& contents : mpi.all_gather(part)) all->merge(contents);
  return all;
}

TaskScore::TaskScore(const Task& task, std::optional<double> target)
    : name_(task.score), higher_is_better_(task.higher_is_better), target_(target), form_(of(*task.make_metric())) {}

Score TaskScore::of(const Metric& metric) const {
  const std::vector<Score> scores = metric.scores();
  const auto found = std::ranges::find(scores, name_, &Score::name);
  if (found == scores.end()) fail(ExitCode::failed, "the task's metric has no score '{}'", name_);
  return *found;
}

bool TaskScore::is_better(const Score& score, const Score& than) const {
  if (std::isnan(than.value)) return !std::isnan(score.value);
  return higher_is_better_ ? score.value > than.value : score.value < than.value;
}

bool TaskScore::reaches_target(const Score& score) const {
  return has_target() && (higher_is_better_ ? score.value >= *target_ : score.value <= *target_);
}

void Patience::add(const StepScore& evaluation) {
  const double value = evaluation.score.value;
  const bool is_better = best_ ? score_->is_better(evaluation.score, best_->score) : !std::isnan(value);
  since_best_ = is_better ? 0 : since_best_ + 1;
  if (is_better) best_ = evaluation;
}

}  // namespace carillon
