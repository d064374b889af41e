// Standard descriptors: stdin, stdout and stderr of a process that was started without them.
#pragma once

namespace carillon {

/// Opens /dev/null for reading for each of stdin, stdout and stderr that is closed. Otherwise the next opened file
/// would get its number, and messages would be written into it. Writing to them fails, as to a closed descriptor.
void open_standard_descriptors();

}  // namespace carillon
