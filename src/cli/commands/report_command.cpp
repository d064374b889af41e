#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/cli/commands/commands.h"
#include "src/cli/launch/run_folder.h"
#include "src/cli/options/option_set.h"
#include "src/core/text.h"
#include "src/report/evaluation_report.h"
#include "src/report/metrics.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string number_text(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_number() ? score_text(json[name].get<double>()) : "-";
}

/// Prints one line per evaluation in metrics.jsonl. The line has the score of the task, and the loss if metrics.jsonl
/// has one.
void print_evaluations(const fs::path& train_dir) {
  constexpr std::pair<const char*, const char*> scores[] = {
      {"precision", "accuracy"}, {"mean_average_precision", "mAP"}, {"r2", "R2"}};
  const LearningCurves curves = read_learning_curves(train_dir, "");
  const auto is_logged = [&](const auto& score) { return !curves.of_score(score.first).empty(); };
  const auto* const score = std::ranges::find_if(scores, is_logged);
  if (score == std::end(scores)) return;
  fmt::print("{:>8}  {:>8}  {:>8}\n", "step", score->second, "loss");
  for (const LearningCurves::Evaluation& evaluation : curves.evaluations) {
    const auto text = [&](const char* name) {
      const auto found = evaluation.scores.find(name);
      return found != evaluation.scores.end() ? score_text(found->second) : "-";
    };
    fmt::print("{:>8}  {:>8}  {:>8}\n", evaluation.step, text(score->first), text("loss"));
  }
}

/// Returns the name of a class, or its number if the report has no names.
std::string class_name(const Json& report, std::size_t label) {
  const Json& one = report.at("classes").at(label);
  return one.contains("name") ? printable(one["name"].get<std::string>()) : std::to_string(label);
}

/// Prints a line per class with the share of the pictures of this class that the network recognised.
void print_classes(const Json& report) {
  fmt::print("\n{:>8}  {:>8}  {:>8}  class\n", "pictures", "correct", "recall");
  for (std::size_t label = 0; label < report.at("classes").size(); ++label) {
    const Json& one = report.at("classes")[label];
    fmt::print("{:>8}  {:>8}  {:>8}  {}\n", one.at("support").get<std::int64_t>(),
               one.at("correct").get<std::int64_t>(), number_text(one, "recall"), class_name(report, label));
  }
}

/// Prints the pairs of classes that the network confuses most often.
void print_confusions(const Json& report) {
  struct Confusion {
    std::int64_t count;
    std::size_t truth, predicted;
  };
  std::vector<Confusion> confusions;
  const Json& matrix = report.at("confusion");
  for (std::size_t truth = 0; truth < matrix.size(); ++truth) {
    for (std::size_t predicted = 0; predicted < matrix[truth].size(); ++predicted) {
      const auto count = matrix[truth][predicted].get<std::int64_t>();
      if (truth != predicted && count > 0) confusions.push_back({count, truth, predicted});
    }
  }
  constexpr std::size_t most = 10;
  const auto end = confusions.begin() + static_cast<std::ptrdiff_t>(std::min(most, confusions.size()));
  std::ranges::partial_sort(confusions, end, [](const Confusion& a, const Confusion& b) {
    return std::tuple(-a.count, a.truth, a.predicted) < std::tuple(-b.count, b.truth, b.predicted);
  });
  if (!confusions.empty()) fmt::print("\n{:>8}  class -> predicted as\n", "pictures");
  for (auto one = confusions.begin(); one != end; ++one) {
    fmt::print("{:>8}  {} -> {}\n", one->count, class_name(report, one->truth), class_name(report, one->predicted));
  }
}

/// Prints a line per label or number. `kind`: "label" or "number". `columns`: the names of the values in the report.
void print_rows(const Json& report, const std::string& kind, std::initializer_list<const char*> columns) {
  std::string heading = "\n";
  for (const char* const column : columns) heading += fmt::format("{:>17}  ", column);
  fmt::print("{}{}\n", heading, kind);
  for (const Json& row : report.at(kind + "s")) {
    std::string line;
    for (const char* const column : columns) line += fmt::format("{:>17}  ", number_text(row, column));
    fmt::print("{}{}\n", line, printable(row.at("name").get<std::string>()));
  }
}

void print_results(const Json& report) {
  if (report.contains("labels")) return print_rows(report, "label", {"average_precision", "f1", "best_threshold"});
  if (report.contains("numbers")) return print_rows(report, "number", {"r2", "mae", "rmse"});
  print_classes(report);
  print_confusions(report);
}

}  // namespace

int report_command(const std::vector<std::string>& words) {
  const Place run = place_in(words, "report", "RUN");
  const fs::path folder = folder_of(run.path), file = folder / "report.json", page = report_page(folder);
  if (!run.others.empty() && !run.others.front().starts_with("-")) {
    fail(ExitCode::usage, "report: '{}' belongs to no option (see carillon --help)", printable(run.others.front()));
  }
  const std::string checkpoint = checkpoint_of(run.path).string();
  const EvaluationProgram program = evaluation_program(find_checkpoint(checkpoint, [](const std::string&) {}));
  check_evaluation_options(program.name, program.spec, run.others);  // reports wrong options before this command prints
                                                                     // anything
  print_evaluations(folder);
  std::fflush(stdout);
  const int code = evaluate_command(joined({run.path.string(), "--report", page.string(), file.string()}, run.others));
  if (code != 0) return code;
  try {
    print_results(Json::parse(read_plain_file(file, file.string(), max_report_bytes)));
  } catch (const Json::exception& error) {
    fail(ExitCode::data, "{}: is not a report of {}: {}", file.string(), program.name, error.what());
  }
  fmt::print("\nwrote {}\nwrote {}, for a browser\n", printable(file.string()), printable(page.string()));
  return 0;
}

}  // namespace carillon
