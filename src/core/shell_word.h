// Shell words: text as one word of a command line of a shell (POSIX).
#pragma once

#include <string>
#include <string_view>

namespace carillon {

/// `text` in single quotes.
std::string shell_quoted(std::string_view text);

/// `text`, in quotes only if a shell would change it.
std::string shell_word(std::string_view text);

}  // namespace carillon
