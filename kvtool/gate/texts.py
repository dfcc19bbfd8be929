"""The texts of the probe set, written for it; they are under the licence of kvtool.

Plain prose with details that a question can ask for, about things that have nothing to do with
each other, so that a text moved behind another one meets a context it was not computed in.
"""

from __future__ import annotations

from typing import NamedTuple

PROBE_SET = 1  # raise with any change to texts or cases: older records then count no more


class Text(NamedTuple):
    """answer: how a reader would answer the question; fed token by token, never sampled."""

    body: str
    question: str
    answer: str


SYSTEM = (
    "You are a careful assistant. Read the notes below and answer the question at the end with "
    "what the notes say, in one or two sentences.\n\n"
)
GREETING = "Good morning. Before we begin, please keep your answer short and skip any greeting.\n\n"
USERS = (
    "The user is called Ana, writes from Porto and prefers metric units.\n\n",
    "The user is Henrik, a retired teacher. He reads slowly, likes long words explained, and has "
    "asked to be addressed formally at all times.\n\n",
)

LIGHTHOUSE = Text(
    "The lighthouse on Skerry Point was lit for the first time in the autumn of 1871. Its lamp "
    "burned rape oil for eleven years, then paraffin, and was changed to electricity only in "
    "1934, when a cable was laid along the sea bed from the village. The tower is thirty-one "
    "metres high and has one hundred and forty steps, painted white on every tenth so that the "
    "keeper could count them in the dark. Two families lived there and shared one well. In the "
    "winter of 1902 the well froze, and for nineteen days they melted ice on the stove. The last "
    "keeper, a woman called Marit Aasen, left in 1978 after the lamp had been made automatic. "
    "She took the logbook with her and gave it to the school, where it still stands in a glass "
    "case beside the door.\n\n",
    "Question: Who was the last keeper of the lighthouse, and what happened to the logbook?\n"
    "Answer:",
    " The last keeper was Marit Aasen, who left in 1978 after the lamp had been made automatic. "
    "She took the logbook with her and gave it to the school, where it stands in a glass case "
    "beside the door.",
)
ORCHARD = Text(
    "The orchard behind the mill has forty-two trees in six rows. The first three rows are cider "
    "apples, planted by the miller's grandfather, and nobody remembers the names of all of them. "
    "The fourth row is pears, which ripen late and are wrapped in newspaper and stored in the "
    "loft until Christmas. In the fifth row every second tree was lost to the frost of 2010, and "
    "plums were put into the gaps. The sixth row is the youngest: quinces, chosen because the "
    "deer leave them alone. Every March the grass is burned between the rows, never later, since "
    "hedgehogs wake in April. The harvest goes to the press in the next valley, which takes one "
    "litre in five as its pay. A good year gives nine hundred litres of juice, a bad one less "
    "than two hundred.\n\n",
    "Question: What grows in the sixth row of the orchard, and why was it chosen?\nAnswer:",
    " The sixth row holds quinces, the youngest trees of the orchard. They were chosen because "
    "the deer leave them alone, unlike the apples and the pears in the rows in front of them.",
)
BAKERY = Text(
    "Lindholm's bakery opens at six, but the work begins at one in the night. The first dough is "
    "rye, because it has to rest longest; it was set the evening before with a starter that the "
    "owner calls Bertha and feeds twice a day. At two the oven is heated with beech wood, never "
    "pine, whose resin can be tasted in the crust. Rolls go in at four and are done in eighteen "
    "minutes. The white loaves follow, then the cakes, which need the falling heat. On Saturdays "
    "there is a cardamom braid, and people from the other bank of the river row across to buy "
    "it. What is left at noon is given to the ferrymen. Once, in the flood of 1997, the ovens "
    "were under water for a week, and Bertha was kept alive in a kitchen on the hill.\n\n",
    "Question: Which wood heats the oven of the bakery, and why is no pine used?\nAnswer:",
    " The oven is heated with beech wood at two in the night. Pine is never used because its "
    "resin can be tasted in the crust of the bread, which the owner of the bakery would not "
    "accept.",
)
CLOCK = Text(
    "The clock in the town hall was built by two brothers who did not speak to each other. Jakob "
    "made the going train, Emil the striking train, and they left messages for one another "
    "scratched into the inside of the case. The pendulum is two metres long and beats once in "
    "one and four tenths of a second. In hot summers it grows by less than a millimetre, and the "
    "clock loses four seconds a day; a coin on the bob puts that right. The bell comes from a "
    "ship that was broken up in the harbour, and its name, Fortuna, can still be read on the "
    "rim. Since 1960 the clock has been wound by a motor, except on the first of May, when a "
    "child drawn by lot winds it by hand, eighty-eight turns, while the others count aloud.\n\n",
    "Question: Where does the bell of the town hall clock come from, and what is written on it?\n"
    "Answer:",
    " The bell comes from a ship that was broken up in the harbour. The name of that ship, "
    "Fortuna, can still be read on the rim of the bell today, long after the ship itself is gone.",
)
CANAL = Text(
    "Between the lake and the sea the canal climbs down through seven locks. The chambers are "
    "twenty-seven metres long, too short for modern barges, so that today only pleasure boats "
    "pass. A boat that goes down waits until the chamber is full, enters, and is let down by "
    "opening the sluices in the lower gate; it takes eleven minutes if nobody shouts. The third "
    "lock has a leak that was never found. The keeper there, Mr. Oduya, opens his sluices a "
    "little earlier than the others to make up for it. Each passage uses about four hundred "
    "cubic metres of water, and in dry summers the locks are worked only on even days. There is "
    "an eel ladder beside every gate. It is a pipe filled with brushes, and on warm nights in "
    "June one can hear them climbing.\n\n",
    "Question: Why does Mr. Oduya open his sluices earlier than the other keepers?\nAnswer:",
    " Mr. Oduya keeps the third lock, which has a leak that was never found. He opens his "
    "sluices a little earlier than the others to make up for the water that this leak loses.",
)
LIBRARY = Text(
    "The village library is a bus that comes on Thursdays. It carries two thousand one hundred "
    "books, sorted not by author but by how long they take to read: an evening, a weekend, a "
    "winter. The shelf for children is the lowest and runs along both sides. There are no fines. "
    "Who keeps a book too long has to tell the driver, Pilar, how it ends, and whether the end "
    "was any good; she writes it on a card that stays in the book. Some cards are longer than "
    "the last chapter. In 2015 the bus broke down on the pass and could not be reached for two "
    "days. Pilar read to the passengers of a coach that was stuck behind her, and eleven of them "
    "still send her books. The bus is painted green, with a yellow owl whose eyes are the rear "
    "lights.\n\n",
    "Question: What must a reader do who has kept a book from the bus for too long?\nAnswer:",
    " There are no fines. A reader who keeps a book too long has to tell the driver, Pilar, how "
    "it ends and whether the end was any good, and she writes that on a card that stays in the "
    "book.",
)
