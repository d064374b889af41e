#include "src/tasks/class_weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/core/printable.h"

namespace carillon {
namespace {

constexpr std::size_t max_file_bytes = std::size_t{16} << 20;
constexpr std::string_view header = "class,weight", byte_order_mark = "\xEF\xBB\xBF";

template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

/// The two cells of a line. The first may be in double quotes, with "" for a quote. None: the line has another form.
std::optional<std::pair<std::string, std::string_view>> cells_of(std::string_view line) {
  const std::size_t comma = line.rfind(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const std::string_view first = trimmed(line.substr(0, comma)), second = trimmed(line.substr(comma + 1));
  if (!first.starts_with('"')) return std::pair(std::string(first), second);
  if (first.size() < 2 || !first.ends_with('"')) return std::nullopt;
  std::string name;
  for (std::size_t i = 1; i + 1 < first.size(); ++i) {
    if (first[i] == '"' && (++i + 1 == first.size() || first[i] != '"')) return std::nullopt;
    name += first[i];
  }
  return std::pair(std::move(name), second);
}

std::vector<float> weights_of(std::span<const double> values, double mean) {
  std::vector<float> weights;
  for (const double value : values) weights.push_back(static_cast<float>(value / mean));
  return weights;
}

/// The lines of a file of class weights.
class WeightLines {
 public:
  WeightLines(const std::string& path, std::int64_t classes, std::span<const std::string> class_names)
      : path_(printable(path)), class_names_(class_names), weights_(static_cast<std::size_t>(classes), unset) {
    for (std::size_t i = 0; i < class_names.size(); ++i) numbers_.emplace(class_names[i], i);
  }

  void add(std::string_view line) {
    line_number_ += 1;
    line = trimmed(line);
    if (!has_header_) {
      if (line != header) fail_at(fmt::format("is '{}', not the header '{}'", printable(line), header));
      has_header_ = true;
    } else if (!line.empty()) {
      add_class(line);
    }
  }

  std::vector<double> weights() const {
    if (!has_header_) fail(ExitCode::data, "{}: is empty; its first line must be '{}'", path_, header);
    const auto missing = std::ranges::find(weights_, unset);
    if (missing == weights_.end()) return weights_;
    fail(ExitCode::data, "{}: has no weight for class {}", path_, name_of(missing - weights_.begin()));
  }

 private:
  static constexpr double unset = -1.0;

  void add_class(std::string_view line) {
    const auto cells = cells_of(line);
    if (!cells) fail_at(fmt::format("'{}' is not a class and its weight, separated by a comma", printable(line)));
    const auto& [name, text] = *cells;
    const std::size_t label = class_of(name);
    const std::optional<double> weight = number_in<double>(text);
    if (!weight || !std::isfinite(static_cast<float>(*weight)) || *weight < 0.0) {
      fail_at(fmt::format("the weight '{}' is not a finite number of at least 0", printable(text)));
    }
    if (weights_[label] != unset) fail_at(fmt::format("names class {} again", name_of(label)));
    weights_[label] = *weight;
  }

  std::size_t class_of(const std::string& name) const {
    if (const auto found = numbers_.find(name); found != numbers_.end()) return found->second;
    const std::optional<std::size_t> number = number_in<std::size_t>(name);
    if (number && *number < weights_.size()) return *number;
    fail_at(fmt::format("'{}' is neither the name of a class nor a number from 0 to {}", printable(name),
                        weights_.size() - 1));
  }

  std::string name_of(std::size_t label) const {
    return label < class_names_.size() ? fmt::format("{} ({})", label, printable(class_names_[label]))
                                       : fmt::format("{}", label);
  }

  [[noreturn]] void fail_at(const std::string& what) const {
    fail(ExitCode::data, "{}: line {}: {}", path_, line_number_, what);
  }

  std::string path_;
  std::span<const std::string> class_names_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<double> weights_;
  std::size_t line_number_ = 0;
  bool has_header_ = false;
};

}  // namespace

std::vector<std::int64_t> class_counts(std::span<const std::byte> targets, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (std::size_t at = 0; at < targets.size(); at += sizeof(std::int32_t)) {
    std::int32_t label = 0;
    std::memcpy(&label, targets.data() + at, sizeof label);
    counts.at(static_cast<std::size_t>(label)) += 1;
  }
  return counts;
}

std::vector<float> balanced_class_weights(std::span<const std::int64_t> counts) {
  double records = 0.0, present = 0.0;
  for (const std::int64_t count : counts) {
    records += static_cast<double>(count);
    present += count > 0 ? 1.0 : 0.0;
  }
  check(records > 0.0, "balanced class weights require records");
  std::vector<double> weights;
  for (const std::int64_t count : counts) weights.push_back(count > 0 ? 1.0 / static_cast<double>(count) : 0.0);
  return weights_of(weights, present / records);
}

std::vector<float> scaled_class_weights(std::span<const double> given, std::span<const std::int64_t> counts) {
  check(given.size() == counts.size(), "each class requires a weight");
  double sum = 0.0, records = 0.0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    sum += given[c] * static_cast<double>(counts[c]);
    records += static_cast<double>(counts[c]);
  }
  if (!(sum > 0.0)) fail(ExitCode::data, "--class-weights: the classes of all training records have weight 0");
  std::vector<float> weights = weights_of(given, sum / records);
  if (std::ranges::all_of(weights, [](float weight) { return std::isfinite(weight); })) return weights;
  fail(ExitCode::data, "--class-weights: a weight is too large, relative to the mean over the training records");
}

std::vector<double> read_class_weights(const std::string& path, std::int64_t classes,
                                       std::span<const std::string> class_names) {
  const std::string text = read_plain_file(path, "--class-weights " + printable(path), max_file_bytes);
  std::string_view rest = text;
  if (rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
  WeightLines lines(path, classes, class_names);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    lines.add(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return lines.weights();
}

}  // namespace carillon
