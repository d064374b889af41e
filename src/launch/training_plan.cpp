#include "src/launch/training_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/options/option_set.h"

namespace carillon {
namespace {

constexpr std::int64_t format_version = 1;
constexpr std::size_t max_bytes = std::size_t{1} << 20;

std::filesystem::path plan_path(const std::filesystem::path& train_dir) { return train_dir / "plan.json"; }

void write_text(const std::filesystem::path& path, const std::string& text, std::size_t limit) {
  write_file_atomically(path, std::as_bytes(std::span(text)), limit);
}

}  // namespace

std::string minutes_text(double minutes) {
  const std::string number = fmt::format("{:.3g}", minutes);
  return number + (number == "1" ? " minute" : " minutes");
}

std::filesystem::path settings_path(const std::filesystem::path& train_dir) { return train_dir / "plan.cfg"; }

void remove_plan(const std::filesystem::path& train_dir) { remove_file(plan_path(train_dir)); }

void write_plan(const std::filesystem::path& train_dir, const TrainingPlan& plan, const std::string& settings) {
  remove_plan(train_dir);  // the old plan must not be read with the new settings
  write_text(settings_path(train_dir), settings, OptionSet::max_config_bytes);
  nlohmann::json json{{"format_version", format_version},
                      {"pictures", plan.pictures},
                      {"fingerprint", plan.fingerprint},
                      {"data", plan.data},
                      {"watched", plan.watched},
                      {"evaluated", plan.evaluated},
                      {"ranks", plan.ranks},
                      {"minutes", plan.minutes},
                      {"conversion", plan.conversion}};
  if (plan.from) json["from"] = *plan.from;
  if (plan.network) json["network"] = *plan.network;
  if (plan.image_size) json["image_size"] = *plan.image_size;
  if (plan.eval_image_size) json["eval_image_size"] = *plan.eval_image_size;
  if (plan.steps) json["steps"] = *plan.steps;
  write_text(plan_path(train_dir), json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n",
             max_bytes);
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
    std::optional<std::string> from, network;
    std::optional<std::int64_t> image_size, eval_image_size, steps;
    if (json.contains("from")) from = json["from"].get<std::string>();
    if (json.contains("network")) network = json["network"].get<std::string>();
    if (json.contains("image_size")) image_size = json["image_size"].get<std::int64_t>();
    if (json.contains("eval_image_size")) eval_image_size = json["eval_image_size"].get<std::int64_t>();
    if (json.contains("steps")) steps = json["steps"].get<std::int64_t>();
    return TrainingPlan{.pictures = json.at("pictures"),
                        .fingerprint = json.at("fingerprint"),
                        .data = json.at("data"),
                        .conversion = json.at("conversion").get<std::vector<std::string>>(),
                        .from = from,
                        .network = network,
                        .image_size = image_size,
                        .eval_image_size = eval_image_size,
                        .steps = steps,
                        .watched = json.at("watched"),
                        .evaluated = json.at("evaluated"),
                        .ranks = json.at("ranks"),
                        .minutes = json.at("minutes")};
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::data, "{}: is not a plan of carillon train: {}", path.string(), error.what());
  }
}

}  // namespace carillon
