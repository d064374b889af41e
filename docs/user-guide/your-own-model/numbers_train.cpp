// mpirun -np 2 numbers_train --data 'data/numbers/train-*' --train-dir runs/numbers
#include <carillon/cli/program_spec.h>

#include "numbers.h"

int main(int argc, char** argv) { return carillon::training_main("numbers_train", numbers_program(), argc, argv); }
