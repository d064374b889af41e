// Class names: the classes of a list of pictures, and their numbers.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// The classes that a list may have, in their order. Empty: the names that are found, sorted.
struct KnownClasses {
  std::vector<std::string> names;
  std::string source;  ///< for messages: "records.json in the output"
};

/// Checks class names against the known ones.
class ClassCheck {
 public:
  explicit ClassCheck(const KnownClasses& known)
      : names_(known.names.begin(), known.names.end()), source_(known.source) {}

  /// `where`: where the class is named, for the message. Errors: data.
  void require(const std::string& name, const std::string& where) const;

 private:
  std::set<std::string> names_;
  std::string source_;
};

/// The known classes, or those of `found`, without repetitions and sorted by their bytes. Errors: data (too many
/// classes; a name that is not a line of text).
std::vector<std::string> classes_of(std::vector<std::string> found, const KnownClasses& known);

}  // namespace carillon
