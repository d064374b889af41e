// What --help prints of an OptionSet.
#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

#include "carillon/app/option_set.h"

namespace carillon {

std::string OptionSet::help_line(const Option& option, std::size_t width) const {
  const FieldValue value = option.get();
  const std::string* const plain = std::get_if<std::string>(&value);
  const std::string shown = plain != nullptr ? *plain : json_text(value);
  return fmt::format("  --{:<{}}  {}{}{}\n", option.name, width, option.help,
                     option.choices.empty() ? "" : fmt::format(": {}", fmt::join(option.choices, ", ")),
                     shown.empty() || shown == "[]" ? "" : fmt::format(" ({})", shown));
}

std::string OptionSet::help() const {
  std::string text = summary_ + "\n\nOptions (default):\n";
  std::size_t width = 0;
  for (const Option& option : options_) width = std::max(width, option.name.size());
  for (std::size_t group = 0; group < group_headings_.size(); ++group) {
    if (group > 0) text += fmt::format("\n{}:\n", group_headings_[group]);
    for (const Option& option : options_) {
      if (option.group == group) text += help_line(option, width);
    }
  }
  text += fmt::format("\n  --{:<{}}  options from a file of lines `name = value`\n", "config", width);
  return text;
}

}  // namespace carillon
