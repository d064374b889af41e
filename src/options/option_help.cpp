// --help and the man page of an OptionSet.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <variant>

#include "src/options/option_set.h"

namespace carillon {

namespace {

const std::vector<ExitStatus>& exit_statuses() {
  static const std::vector<ExitStatus> all{
      {0, "done"},
      {64, "bad usage, or ranks that disagree"},
      {65, "damaged or unsuitable record or checkpoint"},
      {66, "input file missing"},
      {69, "requested device absent"},
      {70, "the run failed, e.g. the loss is not finite"},
      {74, "I/O error"},
      {75, "stopped by a signal or time limit, with a checkpoint: the same command resumes the run"}};
  return all;
}

std::string shown(const FieldValue& value) {
  if (const auto* plain = std::get_if<std::string>(&value)) return *plain;
  if (const auto* many = std::get_if<std::vector<std::string>>(&value)) return fmt::format("{}", fmt::join(*many, " "));
  return json_text(value);
}

}  // namespace

std::vector<ManualGroup> OptionSet::groups() const {
  std::vector<ManualGroup> groups;
  for (const std::string& heading : group_headings_) groups.push_back({heading, {}});
  for (const Option& option : options_) {
    groups[option.group].options.push_back({.name = option.name,
                                            .value = option.is_flag ? "" : option.value_name,
                                            .text = option.help,
                                            .default_value = shown(option.get()),
                                            .choices = option.choices});
  }
  groups.push_back({"Common",
                    {{.name = "config", .value = "FILE", .text = "file with options, one `name = value` per line"},
                     {.name = "help", .text = "print this help and exit"},
                     {.name = "version", .text = "print the versions of the program and its libraries, and exit"}}});
  return groups;
}

Manual OptionSet::manual() const {
  Manual manual = about_;
  manual.groups = groups();
  manual.exit_statuses = exit_statuses();
  return manual;
}

}  // namespace carillon
