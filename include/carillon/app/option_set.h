// OptionSet: named, typed options from the command line, a file and the environment, through Boost.Program_options.
//
// The command line wins over `--config FILE` (lines `name = value`), which wins over the environment
// (CARILLON_<NAME>, upper case, `_` for `-`); `-` and `_` are the same in names. A BOOL option without a value is true.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace carillon {

class OptionSet {
 public:
  enum class Interval { positive, not_negative, unit };  ///< as floats; unit: 0 <= x <= 1

  /// `summary`: what the program does and how it is called, for --help.
  explicit OptionSet(std::string summary) : summary_(std::move(summary)) {}

  // The targets must outlive the set; they keep their values where an option is not given.
  void add(const std::string& name, bool& target, const std::string& help);
  void add(const std::string& name, std::int64_t& target, std::int64_t lowest, std::int64_t highest,
           const std::string& help);
  void add(const std::string& name, std::uint64_t& target, const std::string& help);
  void add(const std::string& name, double& target, Interval interval, const std::string& help);
  void add(const std::string& name, std::string& target, const std::string& help);
  void add(const std::string& name, std::string& target, const std::vector<std::string>& choices,
           const std::string& help);
  void add(const std::string& name, std::vector<std::string>& target, const std::string& help);

  /// Sets the targets. Returns false when --help was given: nothing is set then.
  /// Errors: usage (naming the option and where it stands), no_input (the --config file is missing).
  bool parse(int argc, const char* const* argv);

  std::string help() const;
  /// Every option's present value, by name with `_` for `-`.
  nlohmann::json values() const;

 private:
  struct Option {
    std::string name, help;
    bool is_flag = false, takes_many = false, given = false;
    std::function<void(const std::vector<std::string>&)> set;  ///< throws ValueExpected
    std::function<nlohmann::json()> get;
  };
  struct Source;
  void add_option(Option option);
  void apply(const Source& source);
  std::vector<std::string> normalised_arguments(int argc, const char* const* argv) const;
  Source command_line(int argc, const char* const* argv) const;
  Source config_file(const std::string& path) const;
  Source environment() const;
  const Option* find(const std::string& name) const;

  std::string summary_;
  std::vector<Option> options_;
};

}  // namespace carillon
