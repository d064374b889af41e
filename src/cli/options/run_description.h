// RunDescription: the options of a run, and facts such as the number of records. The ranks compare their descriptions
// at the start. Checkpoints store the description as JSON. A resumed run reports which settings have changed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/report/metrics.h"

namespace carillon {

/// What a setting affects.
enum class Scope {
  result,  ///< the trained variables
  run,     ///< the course of the run; equal on all ranks
  rank     ///< the work of one rank; may differ between ranks, and descriptions omit it
};

class RunDescription {
 public:
  /// Adds a setting. `name`: an option's name with `_` for `-`, or words with spaces for a fact.
  void add(std::string name, FieldValue value, Scope scope);
  /// Changes the value of a setting if there is one of this name.
  void replace(const std::string& name, const FieldValue& value);
  /// Removes a setting if there is one of this name.
  void remove(const std::string& name);

  /// States that the option has no effect on this run, so it cannot change the result. `option`: the name with `-`.
  /// Does nothing if the description lacks the option.
  void mark_without_effect(std::string_view option);

  /// All settings, in the order of the calls of `add`.
  std::vector<Field> fields() const;
  /// Returns one JSON object with the names in alphabetical order.
  std::string json() const;
  /// Returns a line for each setting that affects the result and has another value in `json_before`, the description of
  /// an earlier run. Settings that only one of the two descriptions has are ignored.
  std::vector<std::string> changes_since(const std::string& json_before) const;

 private:
  struct Setting {
    Field field;
    Scope scope;
  };
  std::vector<Setting> settings_;
};

/// Returns a setting's name as users know it: "--learning-rate" for "learning_rate". A name with a space is unchanged.
std::string shown_name(std::string name);

}  // namespace carillon
