// Version: the version of Carillon and of its libraries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// "mnist_train (Carillon) 0.1.0, commit 2a2e21a123".
std::string version_line(std::string_view program);

/// Name and version of a library: "Open MPI", "4.1.4".
struct LibraryVersion {
  std::string name, version;
};

/// The version as text: "4.1.4" for 4, 1, 4.
std::string dotted(int major, int minor, int patch);

}  // namespace carillon
