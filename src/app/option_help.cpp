// What --help and the man page tell of an OptionSet.
#include <fmt/format.h>

#include <variant>

#include "carillon/app/option_set.h"

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
                                            .preset = shown(option.get()),
                                            .choices = option.choices});
  }
  groups.push_back({"Common",
                    {{.name = "config", .value = "FILE", .text = "options from a file of lines `name = value`"},
                     {.name = "help", .text = "print this text"},
                     {.name = "version", .text = "print what this was built from"}}});
  return groups;
}

std::string OptionSet::help() const {
  std::string text = summary_ + "\n\nOptions (default):\n";
  const std::vector<ManualGroup> all = groups();
  const std::size_t width = head_width(all);
  for (const ManualGroup& group : all) {
    if (group.options.empty()) continue;
    if (!group.heading.empty()) text += fmt::format("\n{}:\n", group.heading);
    text += option_lines(group.options, width);
  }
  text += "\nExit codes:\n";
  for (const ExitStatus& status : exit_statuses()) text += fmt::format("  {:>2}  {}\n", status.code, status.meaning);
  return text;
}

Manual OptionSet::manual(const std::string& program) const {
  const std::size_t purpose_end = std::min(summary_.find(": "), summary_.size());
  const std::size_t line_end = std::min(summary_.find('\n'), summary_.size());
  std::string synopsis =
      purpose_end < line_end ? summary_.substr(purpose_end + 2, line_end - purpose_end - 2) : program;
  if (const std::size_t at = synopsis.find("PROGRAM"); at != synopsis.npos) synopsis.replace(at, 7, program);
  return {.program = program,
          .purpose = summary_.substr(0, purpose_end),
          .synopses = {synopsis},
          .description = line_end < summary_.size() ? summary_.substr(line_end + 1) : "",
          .groups = groups(),
          .exit_statuses = exit_statuses()};
}

}  // namespace carillon
