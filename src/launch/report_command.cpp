#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ranges>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/lines_from_end.h"
#include "src/core/printable.h"
#include "src/launch/commands.h"
#include "src/launch/picture_training.h"
#include "src/launch/run_place.h"
#include "src/processes/passed_options.h"
#include "src/report/evaluation_report.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string number_text(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_number() ? fmt::format("{:.4f}", json[name].get<double>()) : "-";
}

/// A line per evaluation in metrics.jsonl.
void print_evaluations(const fs::path& metrics) {
  std::error_code absent;
  if (!fs::exists(metrics, absent)) return;
  std::vector<Json> evaluations;  // the last one first
  LinesFromEnd lines(metrics);
  while (const auto line = lines.next()) {
    Json json = Json::parse(line->text, nullptr, false);
    const bool has_step = json.is_object() && json.contains("step") && json["step"].is_number();
    if (has_step && json.contains("eval_precision")) evaluations.push_back(std::move(json));
  }
  if (!evaluations.empty()) fmt::print("{:>8}  {:>8}  {:>8}\n", "step", "accuracy", "loss");
  for (const Json& json : evaluations | std::views::reverse) {
    fmt::print("{:>8}  {:>8}  {:>8}\n", json["step"].get<std::int64_t>(), number_text(json, "eval_precision"),
               number_text(json, "eval_loss"));
  }
}

/// The name of a class; its number if the report has no names.
std::string class_name(const Json& report, std::size_t label) {
  const Json& one = report.at("classes").at(label);
  return one.contains("name") ? printable(one["name"].get<std::string>()) : std::to_string(label);
}

/// A line per class: how many of its pictures are recognised.
void print_classes(const Json& report) {
  fmt::print("\n{:>8}  {:>8}  {:>8}  class\n", "pictures", "correct", "recall");
  for (std::size_t label = 0; label < report.at("classes").size(); ++label) {
    const Json& one = report.at("classes")[label];
    fmt::print("{:>8}  {:>8}  {:>8}  {}\n", one.at("support").get<std::int64_t>(),
               one.at("correct").get<std::int64_t>(), number_text(one, "recall"), class_name(report, label));
  }
}

/// The pairs of classes that are confused most often.
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
  if (!confusions.empty()) fmt::print("\n{:>8}  is        predicted as\n", "pictures");
  for (auto one = confusions.begin(); one != end; ++one) {
    fmt::print("{:>8}  {} -> {}\n", one->count, class_name(report, one->truth), class_name(report, one->predicted));
  }
}

}  // namespace

int report_command(const std::vector<std::string>& words) {
  const Place run = place_in(words, "report", "RUN");
  const fs::path folder = folder_of(run.path), file = folder / "report.json", page = report_page(folder);
  print_evaluations(folder / "metrics.jsonl");
  std::fflush(stdout);
  const int code = evaluate_command(joined({run.path.string(), "--report", page.string(), file.string()}, run.others));
  if (code != 0) return code;
  try {
    const Json report = Json::parse(read_plain_file(file, file.string(), max_report_bytes));
    print_classes(report);
    print_confusions(report);
  } catch (const Json::exception& error) {
    fail(ExitCode::data, "{}: is not a report of image_eval: {}", file.string(), error.what());
  }
  fmt::print("\nwrote {}\nwrote {}, for a browser\n", printable(file.string()), printable(page.string()));
  return 0;
}

}  // namespace carillon
