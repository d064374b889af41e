#include "src/launch/evaluation_program.h"

#include <algorithm>

#include "src/app/saved_network.h"

namespace carillon {

EvaluationProgram evaluation_program(const LoadedCheckpoint& loaded) {
  if (!trained_pictures(loaded)) {
    for (EvaluationProgram program :
         {EvaluationProgram{"mnist_eval", mnist_program()}, EvaluationProgram{"cifar10_eval", cifar10_program()}}) {
      if (std::ranges::count(network_names(program.spec), loaded.state.model) > 0) return program;
    }
  }
  return {"image_eval", image_program()};
}

}  // namespace carillon
