#include "src/report/run_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/report/progress.h"
#include "src/report/score_fields.h"

namespace carillon {

namespace {

constexpr double min_seconds_in_words = 120.0;  // from here on minutes are easier to read

std::string head_line(std::string_view name, const std::string& value, const std::string& aside) {
  return fmt::format("{:<15}{:>12}  {}", name, value, aside);
}

std::string time_line(std::string_view name, double seconds, double total, const std::string& aside = "") {
  return fmt::format("{:<15}{:>10.2f} s{:>8.1f} %{}", name, seconds, 100.0 * seconds / total,
                     aside.empty() ? "" : "  " + aside);
}

/// How long ranks waited for other ranks in steps that took `seconds`.
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

/// "accuracy 0.9840 (9840/10000) at step 2400"
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

}  // namespace carillon
