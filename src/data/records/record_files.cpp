#include "src/data/records/record_files.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "carillon/core/error.h"
#include "src/core/file_tools.h"
#include "src/core/text.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

/// The parts of a file name such as train-00002-of-00004.tfrecord.
struct ShardName {
  std::string before, count, after;  ///< "train-", "00004" and ".tfrecord" in this example
  std::size_t digits = 0;            ///< number of digits of the shard number
  std::uint64_t number = 0;

  std::string with_number(std::uint64_t other) const {
    return fmt::format("{}{:0{}}-of-{}{}", before, other, digits, count, after);
  }
};

std::uint64_t number_in(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::optional<ShardName> shard_name(const std::string& name) {
  constexpr std::string_view of = "-of-";
  constexpr std::size_t most_digits = 6;
  const std::size_t middle = name.rfind(of);
  if (middle == name.npos) return std::nullopt;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t begin = middle, end = middle + of.size();
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  while (end < name.size() && is_digit(name[end])) ++end;
  const std::size_t digits = middle - begin, count_digits = end - middle - of.size();
  if (digits == 0 || count_digits == 0 || digits > most_digits || count_digits > most_digits) return std::nullopt;
  return ShardName{.before = name.substr(0, begin),
                   .count = name.substr(middle + of.size(), count_digits),
                   .after = name.substr(end),
                   .digits = digits,
                   .number = number_in(std::string_view(name).substr(begin, digits))};
}

}  // namespace

std::string record_files_hint(const fs::path& directory, std::span<const std::string_view> splits) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator i(directory, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    if (!name.starts_with(".") && i->path().extension() != ".json" && i->is_regular_file(error)) names.push_back(name);
  }
  std::ranges::sort(names);
  for (const std::string_view split : splits) {
    const std::string prefix = std::string(split) + "-";
    const auto has_prefix = [&](const std::string& name) { return name.starts_with(prefix); };
    if (std::ranges::none_of(names, has_prefix)) continue;
    return fmt::format("name its files: {}", shell_quoted(escaped_pattern(directory.string()) + "/" + prefix + "*"));
  }
  const auto is_record_file = [](const std::string& name) { return name.find(".tfrecord") != name.npos; };
  const auto found = std::ranges::find_if(names, is_record_file);
  if (found == names.end()) return "it holds no record files; tfrecord_convert makes them";
  return fmt::format("name its files, for example {}", shell_word((directory / *found).string()));
}

void check_shards_exist(std::span<const std::string> paths) {
  // The shards, by folder and by the name without the shard number.
  std::map<std::tuple<fs::path, std::string, std::string, std::string>, std::pair<ShardName, std::set<std::uint64_t>>>
      sets;
  for (const std::string& path : paths) {
    const fs::path folder = fs::path(path).parent_path();
    std::optional<ShardName> shard = shard_name(fs::path(path).filename().string());
    if (!shard || shard->number >= number_in(shard->count)) continue;
    auto& [name, numbers] = sets[{folder, shard->before, shard->count, shard->after}];
    numbers.insert(shard->number);
    name = std::move(*shard);
  }
  for (const auto& [key, set] : sets) {
    const auto& [name, numbers] = set;
    const std::uint64_t count = number_in(name.count);
    for (std::uint64_t i = 0; i < count && numbers.size() < count; ++i) {
      const fs::path path = std::get<0>(key) / name.with_number(i);
      std::error_code error;
      if (numbers.contains(i) || fs::exists(path, error)) continue;
      fail(ExitCode::no_input, "{}: this shard of {} is missing: restore it, or add --allow-missing-shards",
           path.string(), count);
    }
  }
}

std::string decompressing(const std::string& path) {
  const std::string file = shell_word(path), plain = shell_word(path + ".plain");
  return fmt::format("gzip -dc {} >{} && mv {} {}", file, plain, plain, file);
}

}  // namespace carillon
