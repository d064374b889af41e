// The sources of options: the command line, configuration files and the environment.
#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdlib>
#include <map>
#include <sstream>

#include "carillon/core/error.h"
#include "src/cli/options/option_set.h"
#include "src/core/text_file.h"

namespace carillon {

namespace po = boost::program_options;
using namespace std::string_view_literals;

namespace {

constexpr std::string_view variable_prefix = "CARILLON_";

}  // namespace

std::string variable_of(const std::string& option) {
  std::string variable = std::string(variable_prefix) + option;
  std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return c == '-' ? '_' : std::toupper(c); });
  return variable;
}

/// The options of one source, by name, and the source as a phrase for messages: "", " (in mnist.cfg)", " (in the
/// environment)".
struct OptionSet::Source {
  GivenBy kind;
  std::string where;
  std::map<std::string, std::vector<std::string>> values;
};

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
      auto* value = po::value<std::vector<std::string>>();  // `description` will own `value`
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

/// Returns the message for an unknown option.
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

std::vector<ConfigValue> config_values(const std::string& path) {
  std::istringstream file(read_text_file(path, "--config " + path, OptionSet::max_config_bytes, ExitCode::usage));
  std::stringstream normalised;
  for (std::string line; std::getline(file, line);) {
    const std::size_t name_end = std::min(line.find_first_of("=#"), line.size());
    std::replace(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
    normalised << line << '\n';
  }
  std::vector<ConfigValue> values;
  try {
    const po::options_description none;
    for (const auto& option : po::parse_config_file(normalised, none, true).options) {
      values.push_back({option.string_key, option.value});
    }
  } catch (const po::error& error) {
    fail(ExitCode::usage, "--config: {}: {}", path, error.what());
  }
  return values;
}

OptionSet::Source OptionSet::config_file(const std::string& path) const {
  Source source{GivenBy::file, fmt::format(" (in {})", path), {}};
  for (const auto& [name, texts] : config_values(path)) {
    const Option* const known = find(name);
    if (known == nullptr) fail(ExitCode::usage, "{}", unknown(name, source.where));
    auto& values = source.values[known->name];
    values.insert(values.end(), texts.begin(), texts.end());
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

bool OptionSet::parse_or_answer(int argc, const char* const* argv, std::vector<std::string>& rest) {
  if (print_document(argc, argv, [&] { return manual(); })) return false;
  take_rest(rest);
  if (parse(argc, argv)) return true;
  fmt::print("{}", answer());
  return false;
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

}  // namespace carillon
