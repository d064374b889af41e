// RunDescription: what a run was started with: its options, and facts such as the number of records. Ranks compare it
// at the start, checkpoints hold it as JSON, a resumed run is compared with it.
#pragma once

#include <string>
#include <vector>

#include "src/report/field.h"

namespace carillon {

/// What a setting decides.
enum class Scope {
  result,  ///< what is trained: with another value the variables end differently
  run,     ///< how the run goes; the same on all ranks
  rank     ///< how one rank works; may differ between ranks, so that no description holds it
};

class RunDescription {
 public:
  /// `name`: an option's with `_` for `-`; of a fact, words with a space between.
  void add(std::string name, FieldValue value, Scope scope);
  /// Forgets a setting, if it is there.
  void remove(const std::string& name);

  /// All settings in the order in which they were added.
  std::vector<Field> fields() const;
  /// One object, names in alphabetical order.
  std::string json() const;
  /// One line for each setting that decides the result and has another value in `json_before`, the description of
  /// another run; none for what only one of them has.
  std::vector<std::string> changes_since(const std::string& json_before) const;

 private:
  struct Setting {
    Field field;
    Scope scope;
  };
  std::vector<Setting> settings_;
};

/// A setting's name as a user knows it: "learning_rate" as "--learning-rate"; what has a space is no option.
std::string shown_name(std::string name);

}  // namespace carillon
