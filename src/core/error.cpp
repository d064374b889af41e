#include "carillon/core/error.h"

#include <system_error>

namespace carillon {

std::string errno_text(int number) { return std::generic_category().message(number); }

}  // namespace carillon
