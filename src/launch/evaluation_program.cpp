#include "src/launch/evaluation_program.h"

#include <algorithm>

#include "carillon/core/error.h"
#include "src/app/saved_network.h"
#include "src/core/text.h"

namespace carillon {

EvaluationProgram evaluation_program(const LoadedCheckpoint& loaded) {
  if (trained_pictures(loaded)) return {"image_eval", image_program()};
  for (EvaluationProgram program :
       {EvaluationProgram{"mnist_eval", mnist_program()}, EvaluationProgram{"cifar10_eval", cifar10_program()}}) {
    if (std::ranges::count(network_names(program.spec), loaded.state.model) > 0) return program;
  }
  fail(ExitCode::data, "{}: holds model '{}', which none of Carillon's programs has: use your own program",
       loaded.path.string(), printable(loaded.state.model));
}

}  // namespace carillon
