// What --help prints of an OptionSet.
#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

#include "carillon/app/option_set.h"

namespace carillon {

namespace {

constexpr const char* exit_codes = R"(
Exit codes:
   0  done
  64  wrong usage, or ranks that disagree
  65  a damaged or unsuitable record or checkpoint
  66  a file that should be read is not there
  69  the device asked for is not there
  70  the run itself failed, as by a loss that is not finite
  74  the system refused a read or a write
  75  stopped by a signal or time limit after a checkpoint: the same command goes on from there
)";

}  // namespace

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
  text += fmt::format("  --{:<{}}  print this text\n  --{:<{}}  print what this was built from\n", "help, -h", width,
                      "version", width);
  return text + exit_codes;
}

}  // namespace carillon
