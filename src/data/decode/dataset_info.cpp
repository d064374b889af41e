#include "src/data/decode/dataset_info.h"

#include <nlohmann/json.hpp>
#include <set>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/data/records/file_pattern.h"
#include "src/images/colour.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr int version = 1;
constexpr std::size_t max_file_bytes = std::size_t{64} << 20;

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
  return form;
}

void write_text(const fs::path& path, const std::string& text) {
  write_file_atomically(path, std::as_bytes(std::span(text)), max_file_bytes);
}

std::string text_of(const DatasetInfo& info) {
  nlohmann::ordered_json json{{"carillon_records", version},
                              {"image_key", info.keys.image},
                              {"label_key", info.keys.label},
                              {"first_label", info.first_label},
                              {"classes", info.classes}};
  if (info.background != Colour{}) json["background"] = colour_text(info.background);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::optional<DatasetInfo> read_dataset_info(const fs::path& directory) {
  const fs::path path = directory / dataset_info_name;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const std::string text = read_plain_file(path, path.string(), max_file_bytes);
  try {
    return parsed(text);
  } catch (const std::exception&) {
    fail(ExitCode::data, "{}: is not a records.json of tfrecord_convert images", path.string());
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

void write_dataset_info(const fs::path& directory, const DatasetInfo& form) {
  check_dataset_info(form);
  std::string labels;
  for (const std::string& name : form.classes) labels += name + "\n";
  write_text(directory / "labels.txt", labels);
  write_text(directory / dataset_info_name, text_of(form));
}

}  // namespace carillon
