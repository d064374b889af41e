#include "src/cli/launch/run_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/checkpoint/checkpoint.h"
#include "src/cli/options/option_set.h"
#include "src/core/text.h"
#include "src/train/checkpointing/run_checkpoints.h"

namespace carillon {
namespace {

constexpr std::int64_t format_version = 1;
constexpr std::size_t max_bytes = std::size_t{1} << 20;

std::filesystem::path plan_path(const std::filesystem::path& train_dir) { return train_dir / plan_name; }

/// Calls `visit_one(name, value)` for each value of the plan.
template <typename Plan, typename VisitOne>
void visit(Plan& plan, const VisitOne& visit_one) {
  visit_one("pictures", plan.pictures);
  visit_one("fingerprint", plan.fingerprint);
  visit_one("contents", plan.contents);
  visit_one("data", plan.data);
  visit_one("conversion", plan.conversion);
  visit_one("from", plan.from);
  visit_one("network", plan.network);
  visit_one("image_size", plan.image_size);
  visit_one("eval_image_size", plan.eval_image_size);
  visit_one("steps", plan.steps);
  visit_one("watched", plan.watched);
  visit_one("evaluated", plan.evaluated);
  visit_one("ranks", plan.ranks);
  visit_one("minutes", plan.minutes);
  visit_one("evaluation_seconds", plan.evaluation_seconds);
  visit_one("views", plan.views);
}

void write_text(const std::filesystem::path& path, const std::string& text, std::size_t limit) {
  write_file_atomically(path, std::as_bytes(std::span(text)), limit);
}

std::string text_of(const TrainingPlan& plan) {
  nlohmann::json json{{"format_version", format_version}};
  visit(plan, [&](const char* name, const auto& value) { json[name] = value; });
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string minutes_text(double minutes) {
  const std::string number = fmt::format("{:.3g}", minutes);
  return number + (number == "1" ? " minute" : " minutes");
}

std::filesystem::path settings_path(const std::filesystem::path& train_dir) { return train_dir / plan_settings_name; }

void write_plan(const std::filesystem::path& train_dir, const TrainingPlan& plan, const std::string& settings) {
  remove_next_plan(train_dir);
  remove_file(plan_path(train_dir));  // the old plan must not be read with the new settings
  write_text(settings_path(train_dir), settings, OptionSet::max_config_bytes);
  update_plan(train_dir, plan);
}

void write_next_plan(const std::filesystem::path& train_dir, const TrainingPlan& plan, const std::string& settings) {
  remove_next_plan(train_dir);
  write_text(train_dir / next_plan_settings_name, settings, OptionSet::max_config_bytes);
  write_text(train_dir / next_plan_name, text_of(plan), max_bytes);
}

bool remove_next_plan(const std::filesystem::path& train_dir) {
  std::error_code error;
  if (!std::filesystem::exists(train_dir / next_plan_name, error)) return false;
  remove_file(train_dir / next_plan_name);
  remove_file(train_dir / next_plan_settings_name);
  return true;
}

double time_budget_of(const std::filesystem::path& train_dir) {
  for (const ConfigValue& setting : config_values(settings_path(train_dir).string())) {
    if (setting.name == "time-budget") return parse_number(setting.values.front(), NumberRange::not_negative);
  }
  return 0.0;
}

std::string settings_with_length(const std::filesystem::path& train_dir, std::int64_t max_steps, double time_budget) {
  std::string settings;
  for (const ConfigValue& setting : config_values(settings_path(train_dir).string())) {
    std::string value = fmt::format("{}", fmt::join(setting.values, " "));
    if (setting.name == "time-budget") value = fmt::format("{:.1f}", time_budget);
    if (setting.name == "max-steps") value = std::to_string(max_steps);
    settings += fmt::format("{} = {}\n", setting.name, value);
  }
  return settings;
}

void update_plan(const std::filesystem::path& train_dir, const TrainingPlan& plan) {
  write_text(plan_path(train_dir), text_of(plan), max_bytes);
}

std::optional<TrainingPlan> read_plan(const std::filesystem::path& train_dir) {
  const std::filesystem::path path = plan_path(train_dir);
  std::error_code absent;
  if (!std::filesystem::exists(path, absent)) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(read_plain_file(path, path.string(), max_bytes));
    if (json.at("format_version") != format_version) {
      fail(ExitCode::data, "{}: written by a newer version of carillon", path.string());
    }
    TrainingPlan plan;
    visit(plan, [&](const char* name, auto& value) { json.at(name).get_to(value); });
    return plan;
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::data, "{}: is not a plan of carillon train: {}", path.string(), error.what());
  }
}

namespace fs = std::filesystem;

namespace {

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) &&
         (fs::exists(plan_path(folder), error) || fs::exists(best_checkpoint_path(folder), error) ||
          !list_checkpoints(folder).empty());
}

std::vector<std::string> runs_in(const fs::path& folder) {
  std::vector<std::string> runs;
  std::error_code error;
  for (fs::directory_iterator i(folder.empty() ? "." : folder, error), end; !error && i != end; i.increment(error)) {
    if (is_run(i->path())) runs.push_back(printable((folder / i->path().filename()).string()));
  }
  std::ranges::sort(runs);
  return runs;
}

/// Lists up to ten existing train directories, for the message that `missing` does not exist. Searches the parent
/// folder of `missing`, then the folder `runs`. Returns an empty text if neither folder contains a train directory.
std::string runs_near(const fs::path& missing) {
  constexpr std::size_t most = 10;
  std::vector<std::string> runs = runs_in(missing.parent_path());
  if (runs.empty()) runs = runs_in("runs");
  const std::size_t count = runs.size();
  runs.resize(std::min(count, most));
  return fmt::format("{}{}", fmt::join(runs, ", "), count > most ? fmt::format(" and {} more", count - most) : "");
}

}  // namespace

Place place_in(const std::vector<std::string>& words, const std::string& command, const std::string& what) {
  if (words.empty() || words.front().starts_with("-")) {
    fail(ExitCode::usage, "{0}: the first word must be {1}: carillon {0} {1} (see carillon --help)", command, what);
  }
  Place place{words.front(), {words.begin() + 1, words.end()}};
  std::error_code absent;
  if (!fs::exists(place.path, absent)) {
    const std::string runs = runs_near(place.path);
    fail(ExitCode::no_input, "{}: no such file or folder{}", place.path.string(),
         runs.empty() ? "" : fmt::format("; these runs exist: {}", runs));
  }
  return place;
}

fs::path report_page(const fs::path& train_dir) { return train_dir / "report.html"; }

fs::path trained_network(const fs::path& train_dir) {
  const fs::path best = best_checkpoint_path(train_dir);
  std::error_code absent;
  return fs::exists(best, absent) ? best : train_dir;
}

fs::path checkpoint_of(const fs::path& place) {
  std::error_code error;
  return fs::is_directory(place, error) ? trained_network(place) : place;
}

fs::path folder_of(const fs::path& run) {
  std::error_code error;
  if (fs::is_directory(run, error)) return run;
  const fs::path parent = run.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace carillon
