// The names of the instruction sets as parts of test names.
#pragma once

#include "carillon/device/isa.h"

namespace carillon::testing {

inline const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::plain:
      return "plain";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
    case Isa::amx:
      return "amx";
  }
  return "unknown";
}

}  // namespace carillon::testing
