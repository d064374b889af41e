// Passed options: the words of a command line that `carillon` passes on to another program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carillon {

// In names, `-` and `_` are equal. An option ends before the next word that begins with `--`.

/// Whether the option is among `words`, with or without a value.
bool has_option(const std::vector<std::string>& words, std::string_view name);

/// `words` without the options of these names and their values.
std::vector<std::string> without(const std::vector<std::string>& words, const std::vector<std::string>& names);

/// The options of these names in `words`, and their values.
std::vector<std::string> only(const std::vector<std::string>& words, const std::vector<std::string>& names);

/// `words`, then `more`.
std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more);

}  // namespace carillon
