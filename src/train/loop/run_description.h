// RunDescription: the settings of a run: its options, and facts such as the number of records. Ranks compare it at the
// start, checkpoints hold it as JSON, and a resumed run compares itself with it.
#pragma once

#include <string>
#include <vector>

#include "src/report/field.h"

namespace carillon {

/// The scope of a setting.
enum class Scope {
  result,  ///< the trained variables
  run,     ///< the course of the run; equal on all ranks
  rank     ///< one rank; may differ between ranks, so no description holds it
};

class RunDescription {
 public:
  /// `name`: of an option, with `_` for `-`; of a fact, words with spaces.
  void add(std::string name, FieldValue value, Scope scope);
  /// Removes a setting if it exists.
  void remove(const std::string& name);

  /// All settings in the order of `add`.
  std::vector<Field> fields() const;
  /// One object with its names in alphabetical order.
  std::string json() const;
  /// One line for each setting of Scope::result that has another value in `json_before`, the description of another
  /// run. Settings that only one of the runs has are ignored.
  std::vector<std::string> changes_since(const std::string& json_before) const;

 private:
  struct Setting {
    Field field;
    Scope scope;
  };
  std::vector<Setting> settings_;
};

/// A setting's name as users know it: "--learning-rate" for "learning_rate". A name with a space is a fact and stays.
std::string shown_name(std::string name);

}  // namespace carillon
