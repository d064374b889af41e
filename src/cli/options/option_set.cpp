#include "src/cli/options/option_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

#include "carillon/core/error.h"

namespace carillon {

namespace {

/// Returns an option that has one value. `parse` converts its text.
template <typename Value, typename Parse>
OptionSet::Option value_option(const std::string& name, const std::string& help, Value& target,
                               const std::string& value_name, const Parse& parse) {
  return {.name = name,
          .help = help,
          .set = [&target, parse](const auto& texts) { target = parse(texts.front()); },
          .get = [&target] { return target; },
          .value_name = value_name};
}

}  // namespace

void OptionSet::begin_group(const std::string& heading, Scope scope) {
  const auto found = std::find(group_headings_.begin(), group_headings_.end(), heading);
  group_ = static_cast<std::size_t>(found - group_headings_.begin());
  if (found == group_headings_.end()) group_headings_.push_back(heading);
  scope_ = scope;
}

void OptionSet::arrange(const std::vector<std::string>& names) {
  std::ranges::stable_sort(options_, {}, [&](const Option& option) {
    return std::pair(option.group, std::ranges::find(names, option.name) - names.begin());
  });
}

void OptionSet::pass_on(Manual about, const std::vector<std::string>& replaced) {
  about_ = std::move(about);
  std::erase_if(options_, [&](const Option& option) { return std::ranges::count(replaced, option.name) > 0; });
  for (Option& option : options_) option.is_passed_on = true;
  begin_group("");
}

OptionSet::Option& OptionSet::add(Option option) {
  option.group = group_;
  option.scope = scope_;
  return options_.emplace_back(std::move(option));
}

OptionSet::Option& OptionSet::add(const std::string& name, bool& target, const std::string& help) {
  Option option = value_option(name, help, target, "", parse_bool);
  option.is_flag = true;
  return add(std::move(option));
}

OptionSet::Option& OptionSet::add(const std::string& name, std::int64_t& target, std::int64_t lowest,
                                  std::int64_t highest, const std::string& help) {
  return add(value_option(name, help, target, "N",
                          [=](const std::string& text) { return parse_integer(text, lowest, highest); }));
}

OptionSet::Option& OptionSet::add(const std::string& name, std::uint64_t& target, const std::string& help) {
  return add(value_option(name, help, target, "N", parse_unsigned));
}

OptionSet::Option& OptionSet::add(const std::string& name, double& target, NumberRange range, const std::string& help) {
  return add(
      value_option(name, help, target, "X", [range](const std::string& text) { return parse_number(text, range); }));
}

OptionSet::Option& OptionSet::add(const std::string& name, std::string& target, const std::string& help) {
  return add(value_option(name, help, target, "VALUE", parse_text));
}

OptionSet::Option& OptionSet::add(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                                  const std::string& help) {
  Option option = value_option(name, help, target, "VALUE",
                               [choices](const std::string& text) { return choices[parse_choice(text, choices)]; });
  option.choices = choices;
  return add(std::move(option));
}

OptionSet::Option& OptionSet::add(const std::string& name, std::vector<std::string>& target, const std::string& help) {
  const auto set = [&target](const std::vector<std::string>& texts) {
    if (std::ranges::count(texts, "") > 0) throw ValueExpected{"a pattern", ""};
    target = texts;
  };
  return add({.name = name, .help = help, .set = set, .get = [&target] { return target; }, .takes_many = true});
}

const OptionSet::Option* OptionSet::find(std::string_view name) const {
  const auto has_name = [&](const Option& o) { return o.name == name || (!name.empty() && o.alias == name); };
  const auto found = std::find_if(options_.begin(), options_.end(), has_name);
  return found == options_.end() ? nullptr : &*found;
}

OptionSet::GivenBy OptionSet::given_by(std::string_view name) const {
  const Option* const option = find(name);
  check(option != nullptr, "the source of an option that is not declared was requested");
  return option->given_by;
}

bool OptionSet::is_passed_on(std::string_view name) const {
  const Option* const option = find(name);
  return option != nullptr && option->is_passed_on;
}

std::vector<std::string> OptionSet::words_given(const std::function<bool(const std::string&)>& is_wanted) const {
  std::vector<std::string> words;
  for (const auto& [name, texts] : words_) {
    if (!is_wanted(name)) continue;
    const Option* const option = find(name);
    const bool is_flag = option != nullptr && option->is_flag;
    words.push_back("--" + name + (is_flag && texts.front() != "true" ? "=" + texts.front() : ""));
    if (!is_flag) words.insert(words.end(), texts.begin(), texts.end());
  }
  return words;
}

RunDescription OptionSet::values() const {
  RunDescription description;
  for (const Option& option : options_) {
    std::string key = option.name;
    std::replace(key.begin(), key.end(), '-', '_');
    if (option.scope != Scope::rank) description.add(std::move(key), option.get(), option.scope);
  }
  return description;
}

namespace {

std::string shown(const FieldValue& value) {
  if (const auto* plain = std::get_if<std::string>(&value)) return *plain;
  if (const auto* many = std::get_if<std::vector<std::string>>(&value)) return fmt::format("{}", fmt::join(*many, " "));
  return json_text(value);
}

}  // namespace

std::vector<ManualGroup> OptionSet::groups() const {
  std::vector<ManualGroup> groups;
  for (const std::string& heading : group_headings_) groups.push_back({heading, {}});
  const ManualOption help{.name = "help", .text = "print this help and exit"};
  if (only_command_line_) {
    groups.front().options = {help, {.name = "version", .text = "print the version and exit"}};
  }
  for (const Option& option : options_) {
    if (option.is_passed_on) continue;
    groups[option.group].options.push_back(
        {.name = option.name,
         .value = option.value_name,
         .text = option.help,
         .default_value = option.is_flag && only_command_line_ ? "" : shown(option.get()),
         .choices = option.choices});
  }
  if (only_command_line_) return groups;
  groups.push_back({"Common",
                    {{.name = "config", .value = "FILE", .text = "file with options, one `name = value` per line"},
                     help,
                     {.name = "version", .text = "print the versions of the program and its libraries, and exit"}}});
  return groups;
}

Manual OptionSet::manual() const {
  Manual manual = about_;
  manual.groups = groups();
  if (!manual.exit_statuses.empty()) return manual;
  manual.exit_statuses = {
      {0, "done"},
      {64, "bad usage, or ranks that disagree"},
      {65, "damaged or unsuitable record or checkpoint"},
      {66, "input file missing"},
      {69, "requested device absent"},
      {70, "the run failed, e.g. the loss is not finite"},
      {71, "the process of a rank has ended, or a rank hangs: the same command resumes the run"},
      {74, "I/O error"},
      {75, "stopped by a signal or time limit, with a checkpoint: the same command resumes the run"}};
  return manual;
}

}  // namespace carillon
