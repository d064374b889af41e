#include "src/cli/launch/passed_options.h"

#include <algorithm>

namespace carillon {
namespace {

/// The name in `--name` or `--name=value`, with `-` for `_`; empty if the word is not an option.
std::string name_in(std::string_view word) {
  if (!word.starts_with("--") || word.size() == 2) return {};
  std::string name(word.substr(2, word.find('=') - 2));
  std::ranges::replace(name, '_', '-');
  return name;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The end of the option that begins at `words[begin]`: after all words that are not options.
std::size_t end_of_option(const std::vector<std::string>& words, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < words.size() && name_in(words[end]).empty()) ++end;
  return end;
}

/// The options in `words` with names that `is_wanted` accepts, and their values.
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
