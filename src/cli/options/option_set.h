// OptionSet: reads named, typed options from the command line, a file and the environment with Boost.Program_options.
//
// The command line overrides `--config FILE` (lines `name = value`), which overrides the environment (CARILLON_<NAME>,
// upper case, `_` for `-`). In names, `-` and `_` are the same. A bool option without a value is true.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/cli/options/run_description.h"
#include "src/core/manual.h"
#include "src/report/metrics.h"

namespace carillon {

/// A value of an enumeration and its text. To add an option of an enumeration type, pass an array with one Choice per
/// value.
template <typename Enum>
struct Choice {
  Enum value;
  std::string_view text;
};
template <typename Enum>
Choice(Enum, const char*) -> Choice<Enum>;  // clang 16 does not deduce the arguments of an aggregate

// Functions that parse the text of an option value. The whole text must be one value within the option's range.

/// Exception for a text that is not a value of the option.
struct ValueExpected {
  std::string what;                      ///< the expected value: "a whole number of at least 1"
  std::optional<std::string> text = {};  ///< the wrong text; nullopt: the first text of the option is wrong
};

/// Ranges that a number must have after its conversion to float. unit: 0 <= x <= 1; below_one: 0 <= x < 1.
enum class NumberRange { positive, not_negative, unit, below_one };

// Upper limits of options; larger values can only be mistakes.
inline constexpr std::int64_t max_option_steps = std::int64_t{1} << 53;
inline constexpr std::int64_t max_option_threads = 4096;

bool is_bool(const std::string& text);
bool parse_bool(const std::string& text);
std::uint64_t parse_unsigned(const std::string& text);
/// Returns the text, which must have at least one character.
std::string parse_text(const std::string& text);
std::int64_t parse_integer(const std::string& text, std::int64_t lowest, std::int64_t highest);
double parse_number(const std::string& text, NumberRange range);
/// Returns the index of `text` in `choices`.
std::size_t parse_choice(const std::string& text, const std::vector<std::string>& choices);
/// Splits a list at each `separator`. Removes the spaces around the parts.
std::vector<std::string> parts_of(const std::string& text, char separator);

template <typename Enum, std::size_t n>
std::string text_of(const std::array<Choice<Enum>, n>& choices, Enum value) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.value == value) return std::string(choice.text);
  }
  return {};
}

class OptionSet {
 public:
  enum class GivenBy { nobody, environment, file, command_line };  ///< ascending precedence

  struct Option {
    std::string name, help;
    std::function<void(const std::vector<std::string>&)> set;  ///< sets the target from texts; throws ValueExpected
    /// Returns the present value; `set` with the text of this value restores it.
    std::function<FieldValue()> get;
    std::vector<std::string> choices = {};  ///< permitted values, for --help and completions; empty: any value
    std::string value_name = "VALUE";       ///< placeholder of the value in --help
    bool takes_many = false;                ///< the option takes any number of texts; false: one text
    bool is_flag = false, is_passed_on = false;
    Scope scope = Scope::run;
    std::string alias = {};  ///< another name, which --help does not list
    GivenBy given_by = GivenBy::nobody;
    std::size_t group = 0;  ///< index in group_headings_
  };

  /// `about`: text of --help and the man page in addition to options and exit codes.
  explicit OptionSet(Manual about = {}) : about_(std::move(about)) {}

  /// Starts a group of options. --help lists all options that are added later under this heading. If the heading
  /// already has options, the new options follow them. `scope`: the scope of these options.
  void begin_group(const std::string& heading, Scope scope = Scope::run);

  // Each `add` returns the option. The caller may change the scope, alias and value_name of the option until it adds
  // the next option. The targets must outlive the set. If an option is not given, its target keeps its value.
  Option& add(const std::string& name, bool& target, const std::string& help);
  Option& add(const std::string& name, std::int64_t& target, std::int64_t lowest, std::int64_t highest,
              const std::string& help);
  Option& add(const std::string& name, std::uint64_t& target, const std::string& help);
  Option& add(const std::string& name, double& target, NumberRange range, const std::string& help);
  Option& add(const std::string& name, std::string& target, const std::string& help);
  /// The value must be one of `choices`.
  Option& add(const std::string& name, std::string& target, const std::vector<std::string>& choices,
              const std::string& help);
  /// The values are patterns.
  Option& add(const std::string& name, std::vector<std::string>& target, const std::string& help);
  template <typename Enum, std::size_t n>
  Option& add(const std::string& name, Enum& target, const std::array<Choice<Enum>, n>& choices,
              const std::string& help) {
    std::vector<std::string> texts;
    for (const Choice<Enum>& choice : choices) texts.emplace_back(choice.text);
    return add({.name = name,
                .help = help,
                .set = [&target, choices,
                        texts](const auto& given) { target = choices[parse_choice(given.front(), texts)].value; },
                .get = [&target, choices] { return text_of(choices, target); },
                .choices = texts});
  }
  /// For values with their own text format.
  Option& add(Option option);

  /// Groups all options by their headings. Under each heading, the options in `names` come first, in the order of
  /// `names`.
  void arrange(const std::vector<std::string>& names);

  /// Removes --config, ignores the environment, and hides the defaults of flags in --help. Programs that neither train
  /// nor evaluate call it.
  void use_command_line_only() { only_command_line_ = true; }

  /// Appends arguments that belong to no option to `target`. Without this call, such arguments are errors. Arguments
  /// after `--` belong to no option.
  void take_rest(std::vector<std::string>& target) { rest_ = &target; }

  /// Marks all present options as options of another program. words_given can then pass them on, and --help does not
  /// list them. Removes the options in `replaced`. `about`: see the constructor.
  void pass_on(Manual about, const std::vector<std::string>& replaced);

  /// Sets the text that --version prints.
  void set_version(std::string text) { version_ = std::move(text); }
  /// Sets the error text for `name`, an option that other programs have but this program does not have.
  void explain(const std::string& name, const std::string& text) { explanations_[name] = text; }

  static constexpr std::size_t max_config_bytes = std::size_t{1} << 20;  ///< limit for a --config file

  /// Reads all sources and sets the targets of the options. If --help, -h or --version was given, sets no target and
  /// returns false; the caller then prints `answer`. Errors: usage (names the option and its source), no_input (the
  /// --config file is missing).
  bool parse(int argc, const char* const* argv);
  /// Does the same as the overload above. `words`: the program's name, then its arguments.
  bool parse(const std::vector<std::string>& words);
  /// Calls take_rest(rest) and `parse`, and also prints the answers to --help, --version and --document
  /// (print_document). Programs without ranks call it.
  bool parse_or_answer(int argc, const char* const* argv, std::vector<std::string>& rest);

  /// Returns a line for each environment variable CARILLON_... that has almost the name of an option's variable.
  std::vector<std::string> misspelt_variables() const;

  /// True if an option of this name is declared.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Returns the source in which `parse` found the value of the option. Errors: failed (no option has this name).
  GivenBy given_by(std::string_view name) const;
  bool given(std::string_view name) const { return given_by(name) != GivenBy::nobody; }
  /// True if the option is declared and the command line gives it. Recipes do not count, because they may set options
  /// that do not apply.
  bool is_on_command_line(std::string_view name) const { return has(name) && given_by(name) == GivenBy::command_line; }
  /// True if `name` is given by a source that has at least the precedence of the source of `other`. If a recipe gives
  /// `name` and the command line gives `other`, the result is false: `other` overrides `name`.
  bool given_with(std::string_view name, std::string_view other) const {
    return given(name) && given_by(name) >= given_by(other);
  }
  /// True if `pass_on` has marked the option.
  bool is_passed_on(std::string_view name) const;
  /// Returns the options of the command line for which `is_wanted(name)` is true. The words keep their order: "--seed",
  /// "3".
  std::vector<std::string> words_given(const std::function<bool(const std::string&)>& is_wanted) const;
  Manual manual() const;
  std::string help() const { return help_text(manual()); }
  std::string answer() const { return asks_version_ ? version_ : help(); }
  /// Returns the present values of all options, except options with Scope::rank.
  RunDescription values() const;

 private:
  struct Source;
  void apply(const Source& source);
  std::vector<std::string> normalised_arguments(int argc, const char* const* argv) const;
  Source command_line(int argc, const char* const* argv);
  Source config_file(const std::string& path) const;
  Source environment() const;
  /// Returns the option with this name or alias, or null if there is no such option.
  const Option* find(std::string_view name) const;
  std::string unknown(std::string name, const std::string& where) const;
  std::vector<ManualGroup> groups() const;

  Manual about_;
  std::string version_;
  bool asks_version_ = false, only_command_line_ = false;
  std::map<std::string, std::string> explanations_;
  std::vector<Option> options_;
  std::vector<std::pair<std::string, std::vector<std::string>>> words_;  ///< names and texts on the command line
  std::vector<std::string>* rest_ = nullptr;
  std::vector<std::string> group_headings_{""};
  std::size_t group_ = 0;  ///< index of the present heading
  Scope scope_ = Scope::run;
};

/// A line of a --config file: the name, written with `-` instead of `_`, and the values.
struct ConfigValue {
  std::string name;
  std::vector<std::string> values;
};

/// Reads the lines of a --config file. Errors: usage (a line is not `name = value`; the file is larger than
/// OptionSet::max_config_bytes), no_input.
std::vector<ConfigValue> config_values(const std::string& path);

/// Returns the environment variable that sets the option: "CARILLON_MAX_STEPS".
std::string variable_of(const std::string& option);

/// Returns the name in `names` that is most similar to the misspelt `text`. The result is empty if no name is similar.
std::string nearest(const std::string& text, const std::vector<std::string>& names);

// Functions for the words of a command line that `carillon` passes on to another program. In names, `-` and `_` are
// equal. The values of an option end before the next word that begins with `--`.

/// True if the option is among `words`, with or without a value.
bool has_option(const std::vector<std::string>& words, std::string_view name);
/// Returns `words` without the options that have these names, and without their values.
std::vector<std::string> without(const std::vector<std::string>& words, const std::vector<std::string>& names);
/// Returns only the options in `words` that have these names, with their values.
std::vector<std::string> only(const std::vector<std::string>& words, const std::vector<std::string>& names);
/// Returns `words`, followed by `more`.
std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more);

}  // namespace carillon
