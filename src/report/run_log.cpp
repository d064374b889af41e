#include "src/report/run_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/report/console.h"
#include "src/report/metrics.h"

namespace carillon {
namespace {

constexpr double min_seconds_in_words = 120.0;  // from this total on, the table also states the time in minutes or
                                                // hours, which are easier to read

std::string head_line(std::string_view name, const std::string& value, const std::string& aside) {
  return fmt::format("{:<15}{:>12}  {}", name, value, aside);
}

std::string time_line(std::string_view name, double seconds, double total, const std::string& aside = "") {
  return fmt::format("{:<15}{:>10.2f} s{:>8.1f} %{}", name, seconds, 100.0 * seconds / total,
                     aside.empty() ? "" : "  " + aside);
}

/// Returns a text about the time that ranks waited for other ranks. The steps took `seconds` in total.
std::string rank_wait_line(const std::vector<double>& rank_work, double seconds, double total) {
  const auto waited = [&](double work) { return std::max(seconds - work, 0.0); };
  double sum = 0.0;
  for (const double work : rank_work) sum += waited(work);
  const auto least_work = std::ranges::min_element(rank_work);
  return time_line("  rank wait", sum / static_cast<double>(rank_work.size()), total,
                   fmt::format("mean of {} ranks; most, rank {}: {:.1f} %", rank_work.size(),
                               least_work - rank_work.begin(), 100.0 * waited(*least_work) / total));
}

std::string score_text(const Score& score) {
  return fmt::format("{} {:.4f}{}", score.name, score.value,
                     score.ratio ? fmt::format(" ({})", counts_text(score)) : "");
}

/// Returns, for example, "accuracy 0.9840 (9840/10000) at step 2400".
std::string score_text(const StepScore& best) {
  return fmt::format("{} at step {}", score_text(best.score), best.step);
}

}  // namespace

std::string patience_line(std::int64_t step, std::int64_t patience, const std::optional<StepScore>& best) {
  return fmt::format("ended by --patience {} at step {}: {}", patience, step,
                     best ? "no later evaluation was better than " + score_text(*best) : "all scores are NaN");
}

std::string best_checkpoint_line(const std::string& path, const StepScore& best) {
  return fmt::format("best checkpoint {}: {}", path, score_text(best));
}

std::string target_line(std::int64_t step, const Score& score, double target, const PhaseSeconds& seconds) {
  return fmt::format(
      "reached {} at step {}, --stop-at-accuracy {}, after {:.2f} s: start {:.2f} s, data {:.2f} s, training "
      "{:.2f} s, evaluation {:.2f} s, checkpoints {:.2f} s",
      score_text(score), step, target, seconds.total(), seconds.start, seconds.data, seconds.training,
      seconds.evaluation, seconds.checkpoints);
}

std::vector<std::string> summary_lines(const RunSummary& summary, double min_seconds) {
  const PhaseSeconds& spent = summary.seconds;
  const double total = spent.total(), in_steps = spent.data + spent.training;
  if (total < min_seconds) return {};
  std::vector<std::string> lines;
  const std::int64_t steps = summary.last_step - summary.first_step;
  lines.push_back(head_line("steps", fmt::format("{}", steps),
                            fmt::format("from {} to {}", summary.first_step, summary.last_step)));
  if (steps > 0) {
    const double images = static_cast<double>(steps) * static_cast<double>(summary.global_batch);
    lines.push_back(head_line("images/s", fmt::format("{:.1f}", images / in_steps), "in training, with data wait"));
  }
  if (summary.best) {
    const auto& [step, score] = *summary.best;
    lines.push_back(head_line("best " + score.name, fmt::format("{:.4f}", score.value),
                              fmt::format("{}at step {}", score.ratio ? counts_text(score) + " " : "", step)));
  }
  lines.push_back(fmt::format("{:<15}{:>12}{:>10}", "wall time", "", "share"));
  lines.push_back(time_line("start", spent.start, total));
  lines.push_back(time_line("data wait", spent.data, total));
  lines.push_back(time_line("training", spent.training, total));
  if (!summary.rank_work.empty()) lines.push_back(rank_wait_line(summary.rank_work, in_steps, total));
  lines.push_back(time_line("evaluation", spent.evaluation, total));
  lines.push_back(time_line("checkpoints", spent.checkpoints, total));
  lines.push_back(time_line("total", total, total, total >= min_seconds_in_words ? duration_text(total) : ""));
  return lines;
}

namespace {

double unix_seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& train_dir, const RunLogSettings& settings)
    : loss_name_(settings.loss_name),
      names_layers_(settings.names_layers),
      prints_l2_apart_(settings.prints_l2_apart),
      prints_gradient_norm_(settings.prints_gradient_norm),
      console_(settings.first_step, settings.last_step),
      metrics_(train_dir, settings.first_step, [this](const std::string& line) { console_.warn(line); }),
      events_(train_dir, settings.first_step, [this](const std::string& line) { console_.warn(line); }) {}

void RunLog::graph(const Graph& graph, const std::string& device, const std::string& rule, int tower_count) {
  std::vector<GraphNode> nodes;
  const std::string where = "/job:worker/task:0/device:" + device;
  std::vector<std::string> updated{"averaging"};
  for (const ParameterSpec& parameter : graph.parameters()) {
    nodes.push_back({parameter.name, "Variable", {}, where, parameter.shape});
    updated.push_back(parameter.name);
  }
  std::string last;  // name of the last op; in a training graph, this op computes the loss
  for (const Graph::Node& node : graph.nodes()) {
    std::vector<std::string> inputs;
    for (const int value : node.inputs) {
      if (!graph.values()[value].is_input) inputs.push_back(graph.values()[value].name);
    }
    for (const int parameter : node.parameters) inputs.push_back(graph.parameters()[parameter].name);
    const Shape& shape = graph.values()[node.outputs.front()].shape;
    nodes.push_back({node.name, std::string(node.definition->type()), std::move(inputs), where, shape});
    last = node.name;
  }
  nodes.push_back({"gradients", "Gradients", {last}, where});
  nodes.push_back({"averaging", fmt::format("MeanOver{}Towers", tower_count), {"gradients"}, where});
  nodes.push_back({"update", rule, std::move(updated), where});
  events_.graph(nodes);
  events_.flush();
}

void RunLog::settings(std::int64_t step, const std::vector<Field>& fields) {
  std::string table = "| setting | value |\n|---|---|\n";
  for (const Field& field : fields) {
    table += fmt::format("| {} | `", field.name);
    for (const char c : json_text(field.value)) {
      if (c == '|') table += '\\';  // without escaping, a | would end the cell of the table
      table += c;
    }
    table += "` |\n";
  }
  events_.text("options", step, table);
  events_.flush();
}

void RunLog::step(const StepRecord& record) {
  const double examples_per_second = static_cast<double>(record.global_batch) / record.step_seconds;
  const StepResult& result = record.result;
  std::string line = step_line(record.wall_time, result.step, prints_l2_apart_ ? result.loss : total_loss(result),
                               examples_per_second, record.step_seconds, record.tower_count);
  if (prints_l2_apart_ && result.l2_loss != 0.0) line += fmt::format(", L2 = {:.2f}", result.l2_loss);
  if (prints_gradient_norm_ && result.gradient_norm)
    line += fmt::format(", gradient norm = {:.3g}", *result.gradient_norm);
  console_.print(line);
  std::vector<Field> fields{{"step", result.step},
                            {"loss", total_loss(result)},
                            {loss_name_, result.loss},
                            {"learning_rate", record.learning_rate},
                            {"step_seconds", record.step_seconds},
                            {"examples_per_second", examples_per_second},
                            {"data_wait_seconds", record.data_wait_seconds},
                            {"allreduce_seconds", record.allreduce_seconds},
                            {"time", unix_seconds(record.wall_time)}};
  if (result.gradient_norm) fields.push_back({"gradient_norm", *result.gradient_norm});
  if (!record.rank_seconds.empty()) fields.push_back({"rank_seconds", record.rank_seconds});
  metrics_.write(fields);
}

void RunLog::untimed_step(const StepResult& result, double learning_rate) {
  metrics_.write({{"step", result.step},
                  {"loss", total_loss(result)},
                  {loss_name_, result.loss},
                  {"learning_rate", learning_rate}});
}

void RunLog::scalars(const StepRecord& record) {
  const StepResult& result = record.result;
  events_.scalar(names_layers_ ? "total_loss" : "loss", result.step, total_loss(result));
  events_.scalar(loss_name_, result.step, result.loss);
  events_.scalar("learning_rate", result.step, record.learning_rate);
  if (result.gradient_norm) events_.scalar("gradient_norm", result.step, *result.gradient_norm);
  events_.scalar("examples_per_second", result.step, static_cast<double>(record.global_batch) / record.step_seconds);
  events_.flush();
}

void RunLog::evaluation(std::int64_t step, const Metric& metric, double seconds) {
  for (const std::string& text : metric.other_texts()) console_.print(fmt::format("step {}: {}", step, text));
  console_.print(fmt::format("step {}: {}", step, metric.text()));
  std::vector<Field> fields{{"step", step},
                            {std::string(evaluation_seconds_name), seconds},
                            {"time", unix_seconds(std::chrono::system_clock::now())}};
  for (const Score& score : metric.scores()) {
    if (score.ratio) fields.push_back({std::string(evaluation_prefix) + score.logged_as(), score.value});
    for (Field& field : score_fields(score, evaluation_prefix)) fields.push_back(std::move(field));
    events_.scalar(score.tagged_as(), step, score.value);
  }
  metrics_.write(fields);
  events_.flush();
}

void RunLog::pace(const PacePoint& point) {
  console_.set_last_step(point.last_step);
  metrics_.write(pace_fields(point));
}

void RunLog::parameters(std::int64_t step, const std::vector<ParameterSpec>& specs,
                        const ParameterHistograms& histograms) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const ParameterSpec& spec = specs[i];
    const Histogram& variable = histograms.variables.at(i);
    events_.histogram(names_layers_ ? spec.name + "/gradients" : "gradients_on_average/" + spec.name, step,
                      histograms.gradients.at(i));
    events_.histogram(spec.name, step, variable);
    if (names_layers_ && spec.l2_factor != 0.0f) {
      events_.scalar(spec.name.substr(0, spec.name.find('/')) + "/weight_loss", step,
                     0.5 * spec.l2_factor * variable.sum_squares);
    }
  }
}

void RunLog::layers(std::int64_t step, const LayerSummary& summary) {
  for (const LayerSummary::Layer& layer : summary.layers) {
    const auto zeros = std::count(layer.activations.begin(), layer.activations.end(), 0.0f);
    events_.histogram(layer.name + "/activations", step, histogram_of(layer.activations));
    events_.scalar(layer.name + "/sparsity", step,
                   static_cast<double>(zeros) / static_cast<double>(layer.activations.size()));
  }
  for (std::size_t i = 0; i < summary.images.size(); ++i) {
    events_.image(fmt::format("images/image/{}", i), step, summary.images[i]);
  }
}

}  // namespace carillon
