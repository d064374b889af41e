// What --help and the man page tell of an OptionSet.
#include <variant>

#include "src/app/option_set.h"

namespace carillon {

namespace {

const std::vector<ExitStatus>& exit_statuses() {
  static const std::vector<ExitStatus> all{
      {0, "done"},
      {64, "wrong usage, or ranks that disagree"},
      {65, "a damaged or unsuitable record or checkpoint"},
      {66, "a file that should be read is not there"},
      {69, "the device asked for is not there"},
      {70, "the run itself failed, as by a loss that is not finite"},
      {74, "the system refused a read or a write"},
      {75, "stopped by a signal or time limit after a checkpoint: the same command goes on from there"}};
  return all;
}

std::string shown(const FieldValue& value) {
  const std::string* const plain = std::get_if<std::string>(&value);
  std::string text = plain != nullptr ? *plain : json_text(value);
  return text == "[]" ? std::string() : text;
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
                    {{.name = "config", .value = "FILE", .text = "options from a file of lines `name = value`"},
                     {.name = "help", .text = "print this text"},
                     {.name = "version", .text = "print what this was built from"}}});
  return groups;
}

Manual OptionSet::manual() const {
  Manual manual = about_;
  manual.groups = groups();
  manual.exit_statuses = exit_statuses();
  return manual;
}

}  // namespace carillon
