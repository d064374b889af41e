// mnist_eval: precision @ 1 of a checkpoint of mnist_train.
//
//   mnist_eval --data 'data/mnist/test-*' --checkpoint runs/mnist
#include "carillon/train/app.h"
#include "carillon/train/evaluation.h"

int main(int argc, char** argv) {
  return carillon::run_app("mnist_eval", argc, argv, [&](const carillon::Mpi& mpi) {
    return carillon::evaluate_checkpoint(argc, argv, mpi, {"mnist"}, {"data/mnist/test-*"}, "runs/mnist");
  });
}
