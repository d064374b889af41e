// The name of this host, as messages, locks and event files give it.
#pragma once

#include <string>

namespace carillon {

/// gethostname's answer; "localhost" when the system gives none.
std::string host_name();

}  // namespace carillon
