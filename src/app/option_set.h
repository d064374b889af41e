// OptionSet: named, typed options from the command line, a file and the environment, through Boost.Program_options.
//
// The command line wins over `--config FILE` (lines `name = value`), which wins over the environment
// (CARILLON_<NAME>, upper case, `_` for `-`); `-` and `_` are the same in names. A BOOL option without a value is true.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/manual.h"
#include "src/report/field.h"
#include "src/train/loop/run_description.h"

namespace carillon {

/// A value of an enumeration and its text. A table of them, one for each value, is all that an option of that type
/// needs.
template <typename Enum>
struct Choice {
  Enum value;
  std::string_view text;
};
template <typename Enum>
Choice(Enum, const char*) -> Choice<Enum>;  // clang 16 does not deduce an aggregate's arguments by itself

template <typename Enum, std::size_t n>
std::string text_of(const std::array<Choice<Enum>, n>& choices, Enum value) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.value == value) return std::string(choice.text);
  }
  return {};
}

class OptionSet {
 public:
  enum class GivenBy { nobody, environment, file, command_line };   ///< the stronger, the later
  enum class Interval { positive, not_negative, unit, below_one };  ///< as floats; unit: 0 <= x <= 1; below_one: < 1

  /// A value of a form of its own.
  struct Form {
    std::function<void(const std::vector<std::string>&)> set;  ///< throws ValueExpected (src/app/option_values.h)
    std::function<FieldValue()> get;                           ///< what `set` makes the same of
    bool takes_many = false;                                   ///< texts; else there is one
  };

  /// `about`: what --help and the man page say besides options and exit codes.
  explicit OptionSet(Manual about = {}) : about_(std::move(about)) {}

  /// --help lists what is added from here on under this heading, behind what is there already.
  void begin_group(const std::string& heading);

  // The targets must outlive the set; they keep their values where an option is not given. `scope`: what it decides.
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

  /// Accepts `alias` wherever `name`, an option, may be given. Help and messages show `name` only.
  void add_alias(const std::string& alias, const std::string& name) { aliases_[alias] = name; }

  /// What on the command line belongs to no option goes to `target`, in place of being refused.
  void take_rest(std::vector<std::string>& target) { rest_ = &target; }

  /// What --version prints.
  void set_version(std::string text) { version_ = std::move(text); }
  /// What is said to someone who gives `name`, which is no option here, but elsewhere.
  void explain(const std::string& name, const std::string& text) { explanations_[name] = text; }

  /// Sets the targets. Returns false when --help, -h or --version was given: nothing is set then, and `answer` is what
  /// to print.
  /// Errors: usage (naming the option and where it stands), no_input (the --config file is missing).
  bool parse(int argc, const char* const* argv);

  /// Where `parse` found the value of the option, which there is.
  GivenBy given_by(std::string_view name) const;
  bool given(std::string_view name) const { return given_by(name) != GivenBy::nobody; }
  Manual manual() const;
  std::string help() const { return help_text(manual()); }
  std::string answer() const { return asks_version_ ? version_ : help(); }
  /// Every option's present value, but for those of one rank (Scope::rank).
  RunDescription values() const;

 private:
  struct Option {
    std::string name, help;
    Scope scope = Scope::run;
    std::function<void(const std::vector<std::string>&)> set;  ///< throws ValueExpected
    std::function<FieldValue()> get;
    std::vector<std::string> choices = {};  ///< none: any
    std::string value_name = "VALUE";
    bool is_flag = false, takes_many = false;
    GivenBy given_by = GivenBy::nobody;
    std::size_t group = 0;  ///< in group_headings_
  };
  struct Source;
  void add_choice(const std::string& name, const std::vector<std::string>& choices,
                  const std::function<void(std::size_t)>& set, std::function<std::string()> get,
                  const std::string& help, Scope scope);
  void add_option(Option option);
  void apply(const Source& source);
  std::vector<std::string> normalised_arguments(int argc, const char* const* argv) const;
  Source command_line(int argc, const char* const* argv) const;
  Source config_file(const std::string& path) const;
  Source environment() const;
  const Option* find(std::string_view name) const;
  /// The option's name, if `name` is an alias; else `name`.
  std::string canonical(const std::string& name) const;
  std::string unknown(std::string name, const std::string& where) const;
  std::vector<ManualGroup> groups() const;

  Manual about_;
  std::string version_;
  bool asks_version_ = false;
  std::map<std::string, std::string> explanations_;
  std::vector<Option> options_;
  std::map<std::string, std::string> aliases_;  // to names of options
  std::vector<std::string>* rest_ = nullptr;
  std::vector<std::string> group_headings_{""};
  std::size_t group_ = 0;  ///< of what is added now
};

}  // namespace carillon
