// Passed options: the words of a command line that `carillon` does not use itself and passes on to another program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// A command line in two parts. `own` begins with a program name, as argv does.
struct SplitWords {
  std::vector<std::string> own;
  std::vector<std::string> passed;
};

/// Divides `words`. Words before the first option are own. An option with a name in `own_names` is own, together with
/// the value after it, and so is an option of `flags`, which takes no value. Every other option is passed on, with all
/// words up to the next option. In names, `-` and `_` are equal.
SplitWords split_words(const std::vector<std::string>& words, const std::vector<std::string>& own_names,
                       const std::vector<std::string>& flags);

/// The value of the option in `words`: of `--name VALUE` and `--name=VALUE`; nothing if it is not among them.
std::optional<std::string> value_of(const std::vector<std::string>& words, std::string_view name);

/// Whether the option is among `words`, with or without a value.
bool has_option(const std::vector<std::string>& words, std::string_view name);

/// `words` without the options of these names and their values.
std::vector<std::string> without(const std::vector<std::string>& words, const std::vector<std::string>& names);

/// The options of these names in `words`, and their values.
std::vector<std::string> only(const std::vector<std::string>& words, const std::vector<std::string>& names);

/// `words`, then `more`.
std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more);

}  // namespace carillon
