// Parses texts of option values, finds similar option names, and selects the words of a command line that are passed
// on.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>

#include "src/cli/options/option_set.h"
#include "src/core/text.h"

namespace carillon {
namespace {

template <typename T>
std::optional<T> whole_text_as(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> as_bool(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return std::nullopt;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

}  // namespace

bool is_bool(const std::string& text) { return as_bool(text).has_value(); }

bool parse_bool(const std::string& text) {
  const std::optional<bool> value = as_bool(text);
  if (!value) throw ValueExpected{"true or false"};
  return *value;
}

std::int64_t parse_integer(const std::string& text, std::int64_t lowest, std::int64_t highest) {
  const std::optional<std::int64_t> value = whole_text_as<std::int64_t>(text);
  const bool has_digits_only = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (value ? *value > highest : has_digits_only) {
    throw ValueExpected{fmt::format("a whole number of at most {}", highest)};
  }
  if (!value || *value < lowest) throw ValueExpected{fmt::format("a whole number of at least {}", lowest)};
  return *value;
}

std::uint64_t parse_unsigned(const std::string& text) {
  const std::optional<std::uint64_t> value = whole_text_as<std::uint64_t>(text);
  if (!value) throw ValueExpected{"a whole number from 0 to 2^64 - 1"};
  return *value;
}

double parse_number(const std::string& text, NumberRange range) {
  const std::optional<double> value = number_of(text);
  using enum NumberRange;
  if (!value || std::isnan(*value)) throw ValueExpected{"a number"};
  if (!std::isfinite(static_cast<float>(*value))) throw ValueExpected{"a number from -3.4e38 to 3.4e38 (float32)"};
  if (range == positive && !(static_cast<float>(*value) > 0.0f)) throw ValueExpected{"a number above 0"};
  if (range == not_negative && !(*value >= 0.0)) throw ValueExpected{"a number of at least 0"};
  if (range == below_one && !(*value >= 0.0 && static_cast<float>(*value) < 1.0f))
    throw ValueExpected{"a number from 0 to below 1"};
  if (range == unit && !(*value >= 0.0 && *value <= 1.0)) throw ValueExpected{"a number from 0 to 1"};
  return *value;
}

std::string parse_text(const std::string& text) {
  if (text.empty()) throw ValueExpected{"a text of at least one character"};
  return text;
}

std::size_t parse_choice(const std::string& text, const std::vector<std::string>& choices) {
  const auto found = std::find(choices.begin(), choices.end(), parse_text(text));
  if (found == choices.end()) throw ValueExpected{fmt::format("one of {}", fmt::join(choices, ", "))};
  return static_cast<std::size_t>(found - choices.begin());
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

namespace {

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal
/// string alignment).
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& here = edits[i][j];
      here = i == 0 || j == 0 ? i + j : std::min(edits[i - 1][j], edits[i][j - 1]) + 1;
      if (i == 0 || j == 0) continue;
      here = std::min(here, edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1));
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) here = std::min(here, edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string nearest(const std::string& text, const std::vector<std::string>& names) {
  std::size_t fewest = std::min<std::size_t>(text.size() / 3, 3) + 1;
  std::string near;
  for (const std::string& name : names) {
    const std::size_t longer = std::max(text.size(), name.size()), shorter = std::min(text.size(), name.size());
    if (longer - shorter >= fewest) continue;  // skipped, because each edit changes the length by at most one
    const std::size_t edits = edits_between(text, name);
    if (edits < fewest) std::tie(fewest, near) = std::pair(edits, name);
  }
  return near;
}

// The words of a command line that are passed on.

namespace {

/// Returns the name in `--name` or `--name=value`, written with `-` instead of `_`. The result is empty if the word is
/// not an option.
std::string name_in(std::string_view word) {
  if (!word.starts_with("--") || word.size() == 2) return {};
  std::string name(word.substr(2, word.find('=') - 2));
  std::ranges::replace(name, '_', '-');
  return name;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// Returns the end of the option that begins at `words[begin]`: the index after its last value.
std::size_t end_of_option(const std::vector<std::string>& words, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < words.size() && name_in(words[end]).empty()) ++end;
  return end;
}

/// Returns the options in `words` for which `is_wanted` accepts the name. Includes their values.
template <typename Predicate>
std::vector<std::string> selected(const std::vector<std::string>& words, const Predicate& is_wanted) {
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < words.size();) {
    const std::size_t end = end_of_option(words, i);
    if (is_wanted(name_in(words[i]))) rest.insert(rest.end(), words.begin() + i, words.begin() + end);
    i = end;
  }
  return rest;
}

}  // namespace

bool has_option(const std::vector<std::string>& words, std::string_view name) {
  return std::ranges::any_of(words, [&](const std::string& word) { return name_in(word) == name; });
}

std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> without(const std::vector<std::string>& words, const std::vector<std::string>& names) {
  return selected(words, [&](const std::string& name) { return !contains(names, name); });
}

std::vector<std::string> only(const std::vector<std::string>& words, const std::vector<std::string>& names) {
  return selected(words, [&](const std::string& name) { return contains(names, name); });
}

}  // namespace carillon
