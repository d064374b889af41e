// OptionSet: named, typed options from the command line, a file and the environment, through Boost.Program_options.
//
// The command line overrides `--config FILE` (lines `name = value`), which overrides the environment (CARILLON_<NAME>,
// upper case, `_` for `-`). In names, `-` and `_` are the same. A bool option without a value is true.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/cli/options/run_description.h"
#include "src/core/manual.h"
#include "src/report/metrics.h"

namespace carillon {

/// A value of an enumeration and its text. An option of that type takes an array with one Choice per value.
template <typename Enum>
struct Choice {
  Enum value;
  std::string_view text;
};
template <typename Enum>
Choice(Enum, const char*) -> Choice<Enum>;  // clang 16 does not deduce the arguments of an aggregate

template <typename Enum, std::size_t n>
std::string text_of(const std::array<Choice<Enum>, n>& choices, Enum value) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.value == value) return std::string(choice.text);
  }
  return {};
}

class OptionSet {
 public:
  enum class GivenBy { nobody, environment, file, command_line };   ///< ascending precedence
  enum class Interval { positive, not_negative, unit, below_one };  ///< as floats; unit: 0 <= x <= 1; below_one: < 1

  /// A value with its own text format.
  struct Form {
    std::function<void(const std::vector<std::string>&)> set;  ///< throws ValueExpected (option_values.h)
    std::function<FieldValue()> get;        ///< calling `set` with the text of the returned value restores the value
    bool takes_many = false;                ///< the option takes any number of texts; false: one text
    std::vector<std::string> choices = {};  ///< for --help and completions; none: any
  };

  /// `about`: text of --help and the man page in addition to options and exit codes.
  explicit OptionSet(Manual about = {}) : about_(std::move(about)) {}

  /// --help lists the options that are added from now on under this heading, after the options that the heading already
  /// has.
  void begin_group(const std::string& heading);

  // The targets must outlive the set. A target keeps its value if its option is not given. `scope`: see Scope.
  void add(const std::string& name, bool& target, const std::string& help, Scope scope = Scope::run);
  void add(const std::string& name, std::int64_t& target, std::int64_t lowest, std::int64_t highest,
           const std::string& help, Scope scope = Scope::run);
  void add(const std::string& name, std::uint64_t& target, const std::string& help, Scope scope = Scope::run);
  void add(const std::string& name, double& target, Interval interval, const std::string& help,
           Scope scope = Scope::run);
  void add(const std::string& name, std::string& target, const std::string& help, Scope scope = Scope::run);
  /// One of `choices`.
  void add(const std::string& name, std::string& target, const std::vector<std::string>& choices,
           const std::string& help, Scope scope = Scope::run);
  void add(const std::string& name, std::vector<std::string>& target, const std::string& help,
           Scope scope = Scope::run);
  void add(const std::string& name, Form form, const std::string& help, Scope scope = Scope::run);
  template <typename Enum, std::size_t n>
  void add(const std::string& name, Enum& target, const std::array<Choice<Enum>, n>& choices, const std::string& help,
           Scope scope = Scope::run) {
    std::vector<std::string> texts;
    for (const Choice<Enum>& choice : choices) texts.emplace_back(choice.text);
    add_choice(
        name, texts, [&target, choices](std::size_t chosen) { target = choices[chosen].value; },
        [&target, choices] { return text_of(choices, target); }, help, scope);
  }

  /// Sorts all options by their headings. Under each heading, the options in `names` come first, in this order.
  void arrange(const std::vector<std::string>& names);

  /// Another name of the option `name`, which --help does not list.
  void add_alias(const std::string& name, const std::string& alias);
  /// The placeholder of the option's value in --help, in place of VALUE, N or X.
  void set_value_name(const std::string& name, const std::string& value_name);

  /// Called by programs that do not train or evaluate: removes --config, and the environment then sets no option.
  /// --help shows no defaults of flags.
  void use_command_line_only() { only_command_line_ = true; }

  /// Appends arguments that belong to no option to `target`. Without this call, such arguments are refused. Arguments
  /// after `--` belong to no option.
  void take_rest(std::vector<std::string>& target) { rest_ = &target; }

  /// Marks all options so far as options of another program, to which words_given passes them on. --help does not list
  /// these options, and options named in `replaced` are removed. `about`: as in the constructor.
  void pass_on(Manual about, const std::vector<std::string>& replaced);

  /// What --version prints.
  void set_version(std::string text) { version_ = std::move(text); }
  /// Sets the answer to `name`, an option that other programs have and this program does not.
  void explain(const std::string& name, const std::string& text) { explanations_[name] = text; }

  static constexpr std::size_t max_config_bytes = std::size_t{1} << 20;  ///< limit for a --config file

  /// Sets the targets. Returns false if --help, -h or --version was given: then no target is set, and the caller prints
  /// `answer`. Errors: usage (names the option and its source), no_input (the --config file is missing).
  bool parse(int argc, const char* const* argv);
  /// As the overload above. `words`: the program's name, then its arguments.
  bool parse(const std::vector<std::string>& words);

  /// Returns a line per environment variable CARILLON_... with a name that is almost the variable of an option.
  std::vector<std::string> misspelt_variables() const;

  /// Whether an option of this name is declared.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Where `parse` found the value of the option. Errors: failed (no option has this name).
  GivenBy given_by(std::string_view name) const;
  bool given(std::string_view name) const { return given_by(name) != GivenBy::nobody; }
  /// Whether `name` was given by a source that `other` does not override. If a recipe gives `name` and the command line
  /// gives `other`, the result is false: `other` wins and `name` is ignored.
  bool given_with(std::string_view name, std::string_view other) const {
    return given(name) && given_by(name) >= given_by(other);
  }
  /// Whether `pass_on` has marked the option.
  bool is_passed_on(std::string_view name) const;
  /// The options of the command line for which `is_wanted(name)` is true, as words in the order of the command line:
  /// "--seed", "3".
  std::vector<std::string> words_given(const std::function<bool(const std::string&)>& is_wanted) const;
  Manual manual() const;
  std::string help() const { return help_text(manual()); }
  std::string answer() const { return asks_version_ ? version_ : help(); }
  /// The present values of all options except options with Scope::rank.
  RunDescription values() const;

 private:
  struct Option {
    std::string name, help;
    Scope scope = Scope::run;
    std::function<void(const std::vector<std::string>&)> set;  ///< throws ValueExpected
    std::function<FieldValue()> get;
    std::vector<std::string> choices = {};  ///< none: any
    std::string value_name = "VALUE";
    bool is_flag = false, takes_many = false, is_passed_on = false;
    GivenBy given_by = GivenBy::nobody;
    std::size_t group = 0;  ///< index in group_headings_
    std::string alias = {};
  };
  struct Source;
  void add_choice(const std::string& name, const std::vector<std::string>& choices,
                  const std::function<void(std::size_t)>& set, std::function<std::string()> get,
                  const std::string& help, Scope scope);
  void add_option(Option option);
  /// The option of this name. Errors: failed (no option has this name).
  Option& declared(const std::string& name);
  void apply(const Source& source);
  std::vector<std::string> normalised_arguments(int argc, const char* const* argv) const;
  Source command_line(int argc, const char* const* argv);
  Source config_file(const std::string& path) const;
  Source environment() const;
  /// The option of this name or alias; null if there is none.
  const Option* find(std::string_view name) const;
  std::string unknown(std::string name, const std::string& where) const;
  std::vector<ManualGroup> groups() const;

  Manual about_;
  std::string version_;
  bool asks_version_ = false, only_command_line_ = false;
  std::map<std::string, std::string> explanations_;
  std::vector<Option> options_;
  std::vector<std::pair<std::string, std::vector<std::string>>> words_;  ///< command line: names and texts
  std::vector<std::string>* rest_ = nullptr;
  std::vector<std::string> group_headings_{""};
  std::size_t group_ = 0;  ///< index of the present heading
};

/// A line of a --config file: `name`, with `-` for `_`, and its values.
struct ConfigValue {
  std::string name;
  std::vector<std::string> values;
};

/// The lines of a --config file. Errors: usage (not `name = value`; larger than OptionSet::max_config_bytes), no_input.
std::vector<ConfigValue> config_values(const std::string& path);

}  // namespace carillon
