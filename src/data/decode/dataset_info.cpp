#include "src/data/decode/dataset_info.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/images/decode.h"
#include "src/core/file_tools.h"
#include "src/core/text_file.h"
#include "src/data/records/unfinished_conversion.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr int version = 1;
constexpr std::size_t max_file_bytes = std::size_t{64} << 20;

/// Reads the task and, for a regression, the scales. The description of a classification has neither.
void parse_task(const nlohmann::json& json, DatasetInfo& form) {
  form.target = target_of_task(json.at("task").get<std::string>()).value();
  if (form.target != TargetKind::numbers) return;
  const std::vector<double> means = json.at("means"), deviations = json.at("deviations");
  form.scales = scales_from(means, deviations, form.classes.size());
}

DatasetInfo parsed(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  if (json.at("carillon_records").get<int>() != version) throw std::runtime_error("unsupported version");
  DatasetInfo form{.keys = {json.at("image_key"), json.at("label_key")}, .classes = json.at("classes")};
  const nlohmann::json& first = json.at("first_label");
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const bool is_label = first.is_number_integer() && first >= 0 && first <= most;
  const std::set<std::string> distinct(form.classes.begin(), form.classes.end());
  if (!is_label || form.classes.empty() || distinct.size() != form.classes.size() ||
      form.classes.size() > max_classes) {
    throw std::runtime_error("invalid labels or classes");
  }
  form.first_label = first;
  if (json.contains("background")) form.background = parse_colour(json.at("background").get<std::string>()).value();
  if (json.contains("task")) parse_task(json, form);
  return form;
}

std::string text_of(const DatasetInfo& info) {
  const bool classifies = info.target == TargetKind::class_index;
  nlohmann::ordered_json json{{"carillon_records", version},
                              {"image_key", info.keys.image},
                              {"label_key", info.keys.label},
                              {"first_label", info.first_label},
                              {"classes", info.classes}};
  if (info.background != Colour{}) json["background"] = colour_text(info.background);
  if (!classifies) json["task"] = task_name(info.target);
  if (info.target == TargetKind::numbers) {
    json["means"] = json["deviations"] = nlohmann::ordered_json::array();
    for (const NumberScale& scale : info.scales) {
      json["means"].push_back(scale.mean);
      json["deviations"].push_back(scale.deviation);
    }
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string_view task_name(TargetKind target) {
  return std::ranges::find(named_tasks, target, &NamedTask::target)->task;
}

std::string_view target_word(TargetKind target) {
  return std::ranges::find(named_tasks, target, &NamedTask::target)->word;
}

std::string_view target_words(TargetKind target) {
  return std::ranges::find(named_tasks, target, &NamedTask::target)->words;
}

std::vector<NumberScale> scales_from(std::span<const double> means, std::span<const double> deviations,
                                     std::size_t count) {
  if (means.size() != count || deviations.size() != count) {
    throw std::runtime_error("one mean and one deviation for each number");
  }
  std::vector<NumberScale> scales;
  for (std::size_t i = 0; i < count; ++i) {
    const auto fits = [](double value) { return std::isfinite(static_cast<float>(value)); };
    if (!fits(means[i]) || !fits(deviations[i]) || deviations[i] <= 0.0) {
      throw std::runtime_error("invalid mean or deviation");
    }
    scales.push_back({.mean = means[i], .deviation = deviations[i]});
  }
  return scales;
}

std::optional<TargetKind> target_of_task(std::string_view task) {
  const auto* const found = std::ranges::find(named_tasks, task, &NamedTask::task);
  return found != named_tasks.end() ? std::optional(found->target) : std::nullopt;
}

std::optional<DatasetInfo> read_dataset_info(const fs::path& directory) {
  const fs::path path = directory / dataset_info_name;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const std::string text = read_text_file(path, path.string(), max_file_bytes);
  try {
    return parsed(text);
  } catch (const nlohmann::json::exception&) {
    fail(ExitCode::data, "{}: is not a records.json of tfrecord_convert images", path.string());
  } catch (const std::exception& fault) {
    fail(ExitCode::data, "{}: is not a records.json of tfrecord_convert images of this version: {}", path.string(),
         fault.what());
  }
}

std::optional<DatasetInfo> dataset_info_of_files(std::span<const std::string> patterns) {
  std::set<fs::path> directories;
  for (const std::string& file : expand_file_patterns(patterns)) directories.insert(fs::path(file).parent_path());
  std::optional<DatasetInfo> first;
  for (const fs::path& directory : directories) {
    const std::optional<DatasetInfo> form = read_dataset_info(directory);
    if (directory == *directories.begin()) {
      first = form;
    } else if (form != first) {
      fail(ExitCode::data, "{} and {} hold records of different classes or keys ({})", directories.begin()->string(),
           directory.string(), dataset_info_name);
    }
  }
  return first;
}

std::string class_text(std::int64_t label, const std::optional<DatasetInfo>& info) {
  const std::int64_t i = info ? label - info->first_label : -1;
  if (i < 0 || i >= std::ssize(info->classes)) return std::to_string(label);
  return info->classes[static_cast<std::size_t>(i)];
}

void check_dataset_info(const DatasetInfo& info) {
  const std::string text = text_of(info);
  if (text.size() > max_file_bytes) {
    fail(ExitCode::data, "the names of {} classes make a {} of {} bytes, at most {} are possible", info.classes.size(),
         dataset_info_name, text.size(), max_file_bytes);
  }
  try {
    parsed(text);
  } catch (const std::exception&) {
    fail(ExitCode::data, "{} classes, expected 1 to {} with distinct names (bytes that are not UTF-8 count as equal)",
         info.classes.size(), max_classes);
  }
}

std::vector<std::unique_ptr<NewFile>> make_dataset_info(const fs::path& directory, const DatasetInfo& info) {
  check_dataset_info(info);
  std::string labels;
  for (const std::string& name : info.classes) labels += name + "\n";
  std::vector<std::unique_ptr<NewFile>> files;
  for (const auto& [name, text] : {std::pair(class_names_file, labels), {dataset_info_name, text_of(info)}}) {
    NewFile& file = *files.emplace_back(std::make_unique<NewFile>(directory / name, temporary_prefix));
    file.write(std::as_bytes(std::span(text)));
    file.finish();
  }
  return files;
}

}  // namespace carillon
