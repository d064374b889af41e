// The exit code of a run that lost a rank. In addition to the codes of ExitCode, because only launchers and the waits
// for other ranks use it.
#pragma once

#include "carillon/core/error.h"

namespace carillon {

/// The process of a rank has ended, or a rank hangs: start again to resume.
inline constexpr ExitCode lost_rank{71};

}  // namespace carillon
