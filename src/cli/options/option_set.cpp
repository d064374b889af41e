#include "src/cli/options/option_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdlib>
#include <map>
#include <sstream>
#include <variant>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "src/cli/options/option_values.h"

namespace carillon {

namespace po = boost::program_options;
using namespace std::string_view_literals;

namespace {

constexpr std::string_view variable_prefix = "CARILLON_";

/// The environment variable that sets the option: "CARILLON_MAX_STEPS".
std::string variable_of(const std::string& option) {
  std::string variable = std::string(variable_prefix) + option;
  std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return c == '-' ? '_' : std::toupper(c); });
  return variable;
}

}  // namespace

/// The options of one source, by name, and a phrase for messages: "", " (in mnist.cfg)", " (in the environment)".
struct OptionSet::Source {
  GivenBy kind;
  std::string where;
  std::map<std::string, std::vector<std::string>> values;
};

void OptionSet::begin_group(const std::string& heading) {
  const auto found = std::find(group_headings_.begin(), group_headings_.end(), heading);
  group_ = static_cast<std::size_t>(found - group_headings_.begin());
  if (found == group_headings_.end()) group_headings_.push_back(heading);
}

void OptionSet::arrange(const std::vector<std::string>& names) {
  std::ranges::stable_sort(options_, {}, [&](const Option& option) {
    return std::pair(option.group, std::ranges::find(names, option.name) - names.begin());
  });
}

OptionSet::Option& OptionSet::declared(const std::string& name) {
  const auto found = std::ranges::find(options_, name, &Option::name);
  check(found != options_.end(), "an option that is not declared has an alias or a value name");
  return *found;
}

void OptionSet::add_alias(const std::string& name, const std::string& alias) { declared(name).alias = alias; }

void OptionSet::set_value_name(const std::string& name, const std::string& value_name) {
  declared(name).value_name = value_name;
}

void OptionSet::pass_on(Manual about, const std::vector<std::string>& replaced) {
  about_ = std::move(about);
  std::erase_if(options_, [&](const Option& option) { return std::ranges::count(replaced, option.name) > 0; });
  for (Option& option : options_) option.is_passed_on = true;
  begin_group("");
}

void OptionSet::add_option(Option option) {
  option.group = group_;
  options_.push_back(std::move(option));
}

void OptionSet::add(const std::string& name, bool& target, const std::string& help, Scope scope) {
  add_option({.name = name,
              .help = help,
              .scope = scope,
              .set = [&target](const auto& texts) { target = parse_bool(texts.front()); },
              .get = [&target] { return target; },
              .is_flag = true});
}

void OptionSet::add(const std::string& name, std::int64_t& target, std::int64_t lowest, std::int64_t highest,
                    const std::string& help, Scope scope) {
  const auto set = [&target, lowest, highest](const auto& texts) {
    target = parse_integer(texts.front(), lowest, highest);
  };
  add_option(
      {.name = name, .help = help, .scope = scope, .set = set, .get = [&target] { return target; }, .value_name = "N"});
}

void OptionSet::add(const std::string& name, std::uint64_t& target, const std::string& help, Scope scope) {
  const auto set = [&target](const auto& texts) { target = parse_unsigned(texts.front()); };
  add_option(
      {.name = name, .help = help, .scope = scope, .set = set, .get = [&target] { return target; }, .value_name = "N"});
}

void OptionSet::add(const std::string& name, double& target, Interval interval, const std::string& help, Scope scope) {
  const auto set = [&target, interval](const auto& texts) { target = parse_number(texts.front(), interval); };
  add_option(
      {.name = name, .help = help, .scope = scope, .set = set, .get = [&target] { return target; }, .value_name = "X"});
}

void OptionSet::add(const std::string& name, std::string& target, const std::string& help, Scope scope) {
  const auto set = [&target](const auto& texts) { target = parse_text(texts.front()); };
  add_option({.name = name, .help = help, .scope = scope, .set = set, .get = [&target] { return target; }});
}

void OptionSet::add(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                    const std::string& help, Scope scope) {
  add_choice(
      name, choices, [&target, choices](std::size_t chosen) { target = choices[chosen]; }, [&target] { return target; },
      help, scope);
}

void OptionSet::add(const std::string& name, std::vector<std::string>& target, const std::string& help, Scope scope) {
  add(name,
      {.set =
           [&target](const auto& texts) {
             for (const std::string& text : texts) {
               if (text.empty()) throw ValueExpected{"a pattern", text};
             }
             target = texts;
           },
       .get = [&target] { return target; },
       .takes_many = true},
      help, scope);
}

void OptionSet::add(const std::string& name, Form form, const std::string& help, Scope scope) {
  add_option({.name = name,
              .help = help,
              .scope = scope,
              .set = std::move(form.set),
              .get = std::move(form.get),
              .takes_many = form.takes_many});
}

void OptionSet::add_choice(const std::string& name, const std::vector<std::string>& choices,
                           const std::function<void(std::size_t)>& set, std::function<std::string()> get,
                           const std::string& help, Scope scope) {
  add_option({.name = name,
              .help = help,
              .scope = scope,
              .set = [set, choices](const auto& texts) { set(parse_choice(texts.front(), choices)); },
              .get = std::move(get),
              .choices = choices});
}

const OptionSet::Option* OptionSet::find(std::string_view name) const {
  const auto has_name = [&](const Option& o) { return o.name == name || (!name.empty() && o.alias == name); };
  const auto found = std::find_if(options_.begin(), options_.end(), has_name);
  return found == options_.end() ? nullptr : &*found;
}

std::vector<std::string> OptionSet::normalised_arguments(int argc, const char* const* argv) const {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == std::string_view("--")) {
      arguments.insert(arguments.end(), argv + i, argv + argc);
      break;
    }
    std::string argument = argv[i] == std::string_view("-h") ? "--help" : argv[i];
    if (!argument.starts_with("--")) {
      arguments.push_back(std::move(argument));
      continue;
    }
    const std::size_t name_end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin(), argument.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
    const Option* option = find(argument.substr(2, name_end - 2));
    if (option != nullptr && option->is_flag && name_end == argument.size()) {
      const bool value_follows = i + 1 < argc && is_bool(argv[i + 1]);
      const bool word_follows = i + 1 < argc && !value_follows && argv[i + 1][0] != '-';
      if (word_follows && rest_ == nullptr) {
        fail(ExitCode::usage, "--{}: '{}' is not true or false", option->name, argv[i + 1]);
      }
      argument += value_follows ? std::string("=") + argv[++i] : std::string("=true");
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

OptionSet::Source OptionSet::command_line(int argc, const char* const* argv) {
  words_.clear();
  po::options_description description;
  auto add = description.add_options();
  add("help", "")("version", "");
  if (!only_command_line_) add("config", po::value<std::vector<std::string>>(), "");
  add("argument", po::value<std::vector<std::string>>(), "");  // an argument that belongs to no option
  for (const Option& option : options_) {
    for (const std::string& name : {option.name, option.alias}) {
      if (name.empty()) continue;
      auto* value = po::value<std::vector<std::string>>();  // `description` will own it
      add(name.c_str(), option.takes_many ? value->multitoken() : value, option.help.c_str());
    }
  }
  namespace style = po::command_line_style;
  Source source{GivenBy::command_line, {}, {}};
  try {
    const auto parsed = po::command_line_parser(normalised_arguments(argc, argv))
                            .options(description)
                            .positional(po::positional_options_description().add("argument", -1))
                            .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next)
                            .run();
    const char* const* const end = argv + argc;
    std::ptrdiff_t before_terminator = std::ranges::count(parsed.options, "argument", &po::option::string_key) -
                                       std::max<std::ptrdiff_t>(0, end - std::find(argv, end, "--"sv) - 1);
    for (const auto& option : parsed.options) {
      if (option.string_key == "argument") {
        const std::string& word = option.value.at(0);
        if (rest_ != nullptr) {
          if (before_terminator-- > 0 && word.starts_with('-') && word.size() > 1) {
            fail(ExitCode::usage, "{}: unknown option (see --help)", word);
          }
          rest_->push_back(word);
          continue;
        }
        fail(ExitCode::usage, "'{}' belongs to no option (see --help)", option.value.at(0));
      }
      const Option* const known = find(option.string_key);  // null for --help, --version and --config
      const std::string& name = known != nullptr ? known->name : option.string_key;
      auto& values = source.values[name];
      values.insert(values.end(), option.value.begin(), option.value.end());
      words_.emplace_back(name, option.value);
    }
  } catch (const po::unknown_option& error) {
    fail(ExitCode::usage, "{}", unknown(error.get_option_name(), ""));
  } catch (const po::error& error) {
    fail(ExitCode::usage, "{}", error.what());
  }
  return source;
}

/// The message for an unknown option.
std::string OptionSet::unknown(std::string name, const std::string& where) const {
  name.erase(0, name.find_first_not_of('-'));
  name.erase(std::min(name.find('='), name.size()));
  if (const auto found = explanations_.find(name); found != explanations_.end()) {
    return fmt::format("--{}{}: {}", name, where, found->second);
  }
  std::vector<std::string> names;
  if (where.empty()) names.insert(names.end(), {"help", "version"});
  if (where.empty() && !only_command_line_) names.emplace_back("config");
  for (const Option& option : options_) names.push_back(option.name);
  const Option* const positive = name.starts_with("no-") ? find(std::string_view(name).substr(3)) : nullptr;
  if (positive != nullptr && positive->is_flag) {
    return fmt::format("--{}: unknown option{}; --{}=false turns it off", name, where, positive->name);
  }
  const std::string near = nearest(name, names);
  return fmt::format("--{}: unknown option{}{}", name, where,
                     near.empty() ? " (see --help)" : fmt::format("; did you mean --{}?", near));
}

OptionSet::Source OptionSet::config_file(const std::string& path) const {
  std::istringstream file(read_plain_file(path, "--config " + path, max_config_bytes, ExitCode::usage));
  std::stringstream normalised;
  for (std::string line; std::getline(file, line);) {
    const std::size_t name_end = std::min(line.find_first_of("=#"), line.size());
    std::replace(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
    normalised << line << '\n';
  }
  Source source{GivenBy::file, fmt::format(" (in {})", path), {}};
  try {
    const po::options_description none;
    for (const auto& option : po::parse_config_file(normalised, none, true).options) {
      const Option* const known = find(option.string_key);
      if (known == nullptr) fail(ExitCode::usage, "{}", unknown(option.string_key, source.where));
      auto& values = source.values[known->name];
      values.insert(values.end(), option.value.begin(), option.value.end());
    }
  } catch (const po::error& error) {
    fail(ExitCode::usage, "--config: {}: {}", path, error.what());
  }
  return source;
}

std::vector<std::string> OptionSet::misspelt_variables() const {
  std::vector<std::string> names, lines;
  for (const Option& option : options_) names.push_back(option.name);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view name = *entry;
    name = name.substr(0, name.find('='));
    if (!name.starts_with(variable_prefix)) continue;
    std::string option(name.substr(variable_prefix.size()));
    std::ranges::transform(option, option.begin(), [](unsigned char c) { return c == '_' ? '-' : std::tolower(c); });
    if (find(option) != nullptr) continue;
    const std::string near = nearest(option, names);
    if (!near.empty())
      lines.push_back(fmt::format("{}: no option has this name; did you mean {}?", name, variable_of(near)));
  }
  return lines;
}

OptionSet::Source OptionSet::environment() const {
  Source source{GivenBy::environment, " (in the environment)", {}};
  for (const Option& option : options_) {
    for (const std::string& name : {option.name, option.alias}) {
      const char* const value = name.empty() ? nullptr : std::getenv(variable_of(name).c_str());
      if (value != nullptr) source.values[option.name].emplace_back(value);
    }
  }
  return source;
}

void OptionSet::apply(const Source& source) {
  for (Option& option : options_) {
    const auto found = source.values.find(option.name);
    if (option.given_by != GivenBy::nobody || found == source.values.end()) continue;
    const std::vector<std::string>& texts = found->second;
    if (texts.size() != 1 && !option.takes_many) {
      fail(ExitCode::usage, "--{}{}: given {} times, takes one value", option.name, source.where, texts.size());
    }
    try {
      option.set(texts);
    } catch (const ValueExpected& expected) {
      fail(ExitCode::usage, "--{}{}: '{}' is not {}", option.name, source.where, expected.text.value_or(texts.front()),
           expected.what);
    }
    option.given_by = source.kind;
  }
}

bool OptionSet::parse(const std::vector<std::string>& words) {
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return parse(static_cast<int>(arguments.size()), arguments.data());
}

bool OptionSet::parse(int argc, const char* const* argv) {
  const Source arguments = command_line(argc, argv);
  asks_version_ = arguments.values.contains("version");
  if (asks_version_ || arguments.values.contains("help")) return false;
  apply(arguments);
  if (only_command_line_) return true;
  if (const auto config = arguments.values.find("config"); config != arguments.values.end()) {
    if (config->second.size() > 1) {
      fail(ExitCode::usage, "--config: given {} times, takes one value", config->second.size());
    }
    apply(config_file(config->second.front()));
  } else if (const char* path = std::getenv("CARILLON_CONFIG")) {
    apply(config_file(path));
  }
  apply(environment());
  return true;
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
  const ManualOption help{.name = "help", .text = "print this help and exit"};
  if (only_command_line_) {
    groups.front().options = {help, {.name = "version", .text = "print the version and exit"}};
  }
  for (const Option& option : options_) {
    if (option.is_passed_on) continue;
    groups[option.group].options.push_back(
        {.name = option.name,
         .value = option.is_flag ? "" : option.value_name,
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
  if (manual.exit_statuses.empty()) manual.exit_statuses = exit_statuses();
  return manual;
}

}  // namespace carillon
