// The name of this host for messages, locks and event files.
#pragma once

#include <string>

namespace carillon {

/// The result of gethostname, or "localhost" if it fails.
std::string host_name();

}  // namespace carillon
